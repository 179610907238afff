package archtest

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// root is the module's root, seen from this folder.
const root = "../.."

// TestArchitecture is what this package is for: the module follows the table.
func TestArchitecture(t *testing.T) {
	violations, err := Check(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range violations {
		t.Error(b)
	}
}

// TestArchitectureIsRead guards against a walk that finds nothing and so passes.
func TestArchitectureIsRead(t *testing.T) {
	tr, err := readTree(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if tr.module != "headgate" {
		t.Errorf("module %q, want headgate", tr.module)
	}
	found := map[string]int{}
	for _, r := range tr.packages {
		found[r.name] = len(r.files)
	}
	for _, name := range []string{"internal/archtest", "proxy/admission"} {
		if found[name] < 4 {
			t.Errorf("package %s: %d files read, want several", name, found[name])
		}
	}
}

func TestFixtures(t *testing.T) {
	for name, file := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			want, tree := readFixture(t, file)
			violations, err := Check(tree)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range violations {
				got = append(got, b.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFixturesCover asks for a fixture that passes, and one per kind of violation.
func TestFixturesCover(t *testing.T) {
	all := fixtures(t)
	if _, ok := all["passes"]; !ok {
		t.Error("no fixture that passes")
	}
	var reported strings.Builder
	for _, file := range all {
		want, _ := readFixture(t, file)
		reported.WriteString(strings.Join(want, "\n") + "\n")
	}
	for _, part := range []string{
		"must not import", "package without a row", "row without a package", "no package of the table", "takes the time from",
		"says never net/http", "says never database/sql", "func init", "slog.Default", "no doc.go", "no package comment",
		"has no doc comment", "a package named util", "a package named common", "a package named types", "a package named helpers",
	} {
		if !strings.Contains(reported.String(), part) {
			t.Errorf("no fixture wants a violation that says %q", part)
		}
	}
}

func TestCheckErrors(t *testing.T) {
	const doc = "| Package | State | May import | Never |\n|---|---|---|---|\n| `a` | now | nothing | — |\n"
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no table file", map[string]string{"go.mod": "module m\n"}, "read the table of packages"},
		{"no module file", map[string]string{TablePath: doc}, "read the module file"},
		{"module file without a module", map[string]string{TablePath: doc, "go.mod": "go 1.26\n"}, "no module line"},
		{"no table", map[string]string{TablePath: "words\n", "go.mod": "module m\n"}, "no table of packages"},
		{"not Go", map[string]string{TablePath: doc, "go.mod": "module m\n", "a/a.go": "package\n"}, "a/a.go:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, text := range tt.files {
				tree[name] = &fstest.MapFile{Data: []byte(text)}
			}
			violations, err := Check(tree)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
			if violations != nil {
				t.Errorf("violations %v beside an error", violations)
			}
		})
	}
}

func TestViolationString(t *testing.T) {
	tests := []struct {
		violation Violation
		want      string
	}{
		{Violation{File: "a/b.go", Line: 7, Message: "wrong"}, "a/b.go:7: wrong"},
		{Violation{File: "a", Message: "wrong"}, "a: wrong"},
	}
	for _, tt := range tests {
		if got := tt.violation.String(); got != tt.want {
			t.Errorf("%#v reads %q, want %q", tt.violation, got, tt.want)
		}
	}
}
