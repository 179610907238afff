package strictyaml

import (
	"errors"
	"strings"
	"testing"
)

// A syntax error is reported at the line that has to change: where the list
// or mapping begins that goes wrong, if not where it does.
func TestLinesOfSyntaxErrors(t *testing.T) {
	const pool = "pools:\n  - name: a\n    upstream: http://127.0.0.1:1/v1\n"
	for name, c := range map[string]struct {
		text string
		line int
		want string
	}{
		"reference within braces":   {pool + "admin: {token: ${TOKEN}}\n", 4, `needs quotes, such as "${NAME}"`},
		"braces over several lines": {pool + "admin: {\n  token: ${TOKEN}}\n", 4, `needs quotes`},
		"braces on the first line":  {"admin: {token: ${TOKEN}}\n" + pool, 1, `needs quotes`},
		"open list":                 {pool + "hosts: [a, b\n", 4, "did not find expected ',' or ']'"},
		"key that is out of line":   {pool + "   workers: 4\n", 2, "did not find expected '-' indicator"},
		"key further in": {pool + "drain: 1s\n  hosts: []\n", 5,
			"mapping values are not allowed in this context"},
		"list among keys":            {pool + "- x\n", 4, "did not find expected key"},
		"no value":                   {pool + "drain: ]\n", 4, "did not find expected node content"},
		"character that cannot be":   {pool + "drain: @x\n", 4, "found character that cannot start any token"},
		"escape that is none":        {pool + "data_dir: \"\\q\"\n", 4, "found unknown escape character"},
		"tag handle that is not set": {pool + "drain: !x!y 1s\n", 4, "found undefined tag handle"},
		"directive, twice":           {"%YAML 1.1\n%YAML 1.1\n---\n" + pool, 2, "found duplicate %YAML directive"},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDecoder("f.yaml")
			d.ExpandReferences("", nil)
			d.Document([]byte(c.text), "")
			err := d.Err()
			var problems Diagnostics
			if !errors.As(err, &problems) || len(problems) != 1 {
				t.Fatalf("error %v, want one problem", err)
			}
			if p := problems[0]; p.Line != c.line || !strings.Contains(p.Message, c.want) {
				t.Errorf("%v, want line %d and %q", err, c.line, c.want)
			}
		})
	}
}
