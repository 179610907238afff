package archtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const head = "# Title\n\n| Package | State | May import | Never |\n|---|---|---|---|\n"

func TestParseTable(t *testing.T) {
	text := head +
		"| `a` | now | nothing | `net/http`, `time.Now` |\n" +
		"| `a/b` | later | `a` | — |\n" +
		"| `c` | now | everything |  |\n" +
		"| `d` | now | `a/...` | `c`, `example.com/x/y` |\n" +
		"| `*_test.go` | now | `c` | — |\n" +
		"\n| `z` | now | nothing | — |\n"
	tab, violations, err := parseTable("f.md", text)
	if err != nil || len(violations) > 0 {
		t.Fatalf("error %v, violations %v", err, violations)
	}
	want := map[string]row{
		"a":     {pkg: "a", line: 5, never: []string{"net/http", "time.Now"}},
		"a/b":   {pkg: "a/b", line: 6, planned: true, mayImport: []string{"a"}},
		"c":     {pkg: "c", line: 7, mayImportAll: true},
		"d":     {pkg: "d", line: 8, mayImport: []string{"a/..."}, never: []string{"c", "example.com/x/y"}},
		testRow: {pkg: testRow, line: 9, mayImport: []string{"c"}},
	}
	if diff := cmp.Diff(want, tab.rows, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "a/b", "c", "d", testRow}, tab.order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestParseTableInvalid gives one bad row each, under a good one for package a.
func TestParseTableInvalid(t *testing.T) {
	tests := []struct{ name, row, want string }{
		{"too few cells", "| `b` | now | nothing |", "has 4 cells, this one has 3"},
		{"too many cells", "| `b` | now | nothing | — | x |", "has 4 cells, this one has 5"},
		{"package without backticks", "| b | now | nothing | — |", `must name one package in backticks, is "b"`},
		{"two packages", "| `b`, `c` | now | nothing | — |", "must name one package"},
		{"pattern as a package", "| `b/...` | now | nothing | — |", "must name one package"},
		{"path that climbs", "| `../b` | now | nothing | — |", "must name one package"},
		{"empty package", "| `` | now | nothing | — |", "must name one package"},
		{"unknown state", "| `b` | soon | nothing | — |", `state of b must be now or later, is "soon"`},
		{"words for imports", "| `b` | now | most things | — |", `what b may import: "most things" is not a name in backticks; or write nothing, or everything`},
		{"empty imports", "| `b` | now |  | — |", `what b may import: "" is not a name`},
		{"import twice", "| `b` | now | `a`, `a` | — |", "a stands there twice"},
		{"words for never", "| `b` | now | nothing | sql |", "what b must never import"},
		{"same package twice", "| `a` | now | nothing | — |", "package a has a row already, in line 5"},
		{"import of no package", "| `b` | now | `engin` | — |", "may import engin, which is no package"},
		{"import of no package below", "| `b` | now | `q/...` | — |", "may import q/..., which is no package"},
		{"import of a library", "| `b` | now | `net/http` | — |", "may import net/http, which is no package"},
		{"import of the test row", "| `b` | now | `*_test.go` | — |\n| `*_test.go` | now | nothing | — |", "may import *_test.go, which is no package"},
		{"may and never", "| `b` | now | `a` | `a` |", "both may and must never import a"},
		{"itself", "| `b` | now | `b` | — |", "row b lists itself"},
		{"never of nothing known", "| `b` | now | nothing | `sqlite` |", "must never import sqlite, which is neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, violations, err := parseTable("f.md", head+"| `a` | now | nothing | — |\n"+tt.row+"\n")
			if err != nil {
				t.Fatal(err)
			}
			if len(violations) != 1 {
				t.Fatalf("violations %v, want one", violations)
			}
			if b := violations[0]; b.File != "f.md" || b.Line != 6 || !strings.Contains(b.Message, tt.want) {
				t.Errorf("violation %v, want f.md:6 and %q", b, tt.want)
			}
		})
	}
}

func TestParseTableErrors(t *testing.T) {
	good := "| `a` | now | nothing | — |\n"
	tests := []struct{ name, text, want string }{
		{"empty", "", "no table of packages"},
		{"other table", "| A | B |\n|---|---|\n| 1 | 2 |\n", "no table of packages"},
		{"two", head + good + "\n" + head + good, "two tables of packages, in lines 3 and 9"},
		{"no rule", "| Package | State | May import | Never |\n" + good, "line 2: a line of |---|"},
		{"ends after the head", "| Package | State | May import | Never |", "line 2: a line of |---|"},
		{"no rows", head, "f.md:3: the table of packages has no rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := parseTable("f.md", tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
}

func TestMatchesPattern(t *testing.T) {
	tests := []struct {
		name, pkg string
		want      bool
	}{
		{"a", "a", true},
		{"a", "a/b", false},
		{"a/...", "a", true},
		{"a/...", "a/b/c", true},
		{"a/...", "ab", false},
		{"a/b", "a", false},
	}
	for _, tt := range tests {
		if got := matchesPattern(tt.name, tt.pkg); got != tt.want {
			t.Errorf("covers(%q, %q) = %v", tt.name, tt.pkg, got)
		}
	}
}

func TestIsExternal(t *testing.T) {
	for name, want := range map[string]bool{
		"net/http": true, "database/sql": true, "time.Now": true, "github.com/slack-go/slack": true,
		"prox": false, "internal/sqlite": false, "rune": false,
	} {
		if got := isExternal(name); got != want {
			t.Errorf("foreign(%q) = %v", name, got)
		}
	}
}

// FuzzParseTable: whatever stands there, a package is kept once, with names that can
// be names, and every violation points into the text.
func FuzzParseTable(f *testing.F) {
	f.Add(head + "| `a` | now | nothing | `net/http` |\n| `b` | later | `a/...` | — |\n")
	f.Add(head + "| `*_test.go` | now | everything | — |\n|")
	f.Add("| Package | State | May import | Never |\r\n|---|\n| `` | | | |\n")
	f.Fuzz(func(t *testing.T, text string) {
		tab, violations, err := parseTable("f.md", text)
		lines := strings.Count(text, "\n") + 1
		for _, b := range violations {
			if b.Line < 1 || b.Line > lines || b.Message == "" {
				t.Fatalf("violation %v in a text of %d lines", b, lines)
			}
		}
		if err != nil {
			return
		}
		if len(tab.order) != len(tab.rows) {
			t.Fatalf("%d packages in order, %d rows", len(tab.order), len(tab.rows))
		}
		for name, r := range tab.rows {
			if name != r.pkg || (name != testRow && !namePattern.MatchString(name)) || r.line < 1 || r.line > lines {
				t.Fatalf("row %q: %+v", name, r)
			}
		}
	})
}
