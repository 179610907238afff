package archtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const head = "# Title\n\n| Room | State | May import (ours) | Never |\n|---|---|---|---|\n"

func TestParseTable(t *testing.T) {
	text := head +
		"| `a` | now | nothing | `net/http`, `time.Now` |\n" +
		"| `a/b` | later | `a` | — |\n" +
		"| `c` | now | everything |  |\n" +
		"| `d` | now | `a/...` | `c`, `example.com/x/y` |\n" +
		"| `*_test.go` | now | `c` | — |\n" +
		"\n| `z` | now | nothing | — |\n"
	tab, breaches, err := parseTable("f.md", text)
	if err != nil || len(breaches) > 0 {
		t.Fatalf("error %v, breaches %v", err, breaches)
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

// TestParseTableInvalid gives one bad row each, under a good one for room a.
func TestParseTableInvalid(t *testing.T) {
	tests := []struct{ name, row, want string }{
		{"too few cells", "| `b` | now | nothing |", "has 4 cells, this one has 3"},
		{"too many cells", "| `b` | now | nothing | — | x |", "has 4 cells, this one has 5"},
		{"room without backticks", "| b | now | nothing | — |", `must name one room in backticks, is "b"`},
		{"two rooms", "| `b`, `c` | now | nothing | — |", "must name one room"},
		{"pattern as a room", "| `b/...` | now | nothing | — |", "must name one room"},
		{"path that climbs", "| `../b` | now | nothing | — |", "must name one room"},
		{"empty room", "| `` | now | nothing | — |", "must name one room"},
		{"unknown state", "| `b` | soon | nothing | — |", `state of b must be now or later, is "soon"`},
		{"words for imports", "| `b` | now | most things | — |", `what b may import: "most things" is not a name in backticks; or write nothing, or everything`},
		{"empty imports", "| `b` | now |  | — |", `what b may import: "" is not a name`},
		{"import twice", "| `b` | now | `a`, `a` | — |", "a stands there twice"},
		{"words for never", "| `b` | now | nothing | sql |", "what b must never import"},
		{"same room twice", "| `a` | now | nothing | — |", "room a has a row already, in line 5"},
		{"import of no room", "| `b` | now | `engin` | — |", "may import engin, which is no room"},
		{"import of no room below", "| `b` | now | `q/...` | — |", "may import q/..., which is no room"},
		{"import of a library", "| `b` | now | `net/http` | — |", "may import net/http, which is no room"},
		{"import of the test row", "| `b` | now | `*_test.go` | — |\n| `*_test.go` | now | nothing | — |", "may import *_test.go, which is no room"},
		{"may and never", "| `b` | now | `a` | `a` |", "both may and must never import a"},
		{"itself", "| `b` | now | `b` | — |", "row b lists itself"},
		{"never of nothing known", "| `b` | now | nothing | `sqlite` |", "must never import sqlite, which is neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, breaches, err := parseTable("f.md", head+"| `a` | now | nothing | — |\n"+tt.row+"\n")
			if err != nil {
				t.Fatal(err)
			}
			if len(breaches) != 1 {
				t.Fatalf("breaches %v, want one", breaches)
			}
			if b := breaches[0]; b.File != "f.md" || b.Line != 6 || !strings.Contains(b.Message, tt.want) {
				t.Errorf("breach %v, want f.md:6 and %q", b, tt.want)
			}
		})
	}
}

func TestParseTableErrors(t *testing.T) {
	good := "| `a` | now | nothing | — |\n"
	tests := []struct{ name, text, want string }{
		{"empty", "", "no table of rooms"},
		{"other table", "| A | B |\n|---|---|\n| 1 | 2 |\n", "no table of rooms"},
		{"two", head + good + "\n" + head + good, "two tables of rooms, in lines 3 and 9"},
		{"no rule", "| Room | State | May import (ours) | Never |\n" + good, "line 2: a line of |---|"},
		{"ends after the head", "| Room | State | May import (ours) | Never |", "line 2: a line of |---|"},
		{"no rows", head, "f.md:3: the table of rooms has no rows"},
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
		name, room string
		want       bool
	}{
		{"a", "a", true},
		{"a", "a/b", false},
		{"a/...", "a", true},
		{"a/...", "a/b/c", true},
		{"a/...", "ab", false},
		{"a/b", "a", false},
	}
	for _, tt := range tests {
		if got := matchesPattern(tt.name, tt.room); got != tt.want {
			t.Errorf("covers(%q, %q) = %v", tt.name, tt.room, got)
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

// FuzzParseTable: whatever stands there, a room is kept once, with names that can
// be names, and every breach points into the text.
func FuzzParseTable(f *testing.F) {
	f.Add(head + "| `a` | now | nothing | `net/http` |\n| `b` | later | `a/...` | — |\n")
	f.Add(head + "| `*_test.go` | now | everything | — |\n|")
	f.Add("| Room | State | May import (ours) | Never |\r\n|---|\n| `` | | | |\n")
	f.Fuzz(func(t *testing.T, text string) {
		tab, breaches, err := parseTable("f.md", text)
		lines := strings.Count(text, "\n") + 1
		for _, b := range breaches {
			if b.Line < 1 || b.Line > lines || b.Message == "" {
				t.Fatalf("breach %v in a text of %d lines", b, lines)
			}
		}
		if err != nil {
			return
		}
		if len(tab.order) != len(tab.rows) {
			t.Fatalf("%d rooms in order, %d rows", len(tab.order), len(tab.rows))
		}
		for name, r := range tab.rows {
			if name != r.pkg || (name != testRow && !namePattern.MatchString(name)) || r.line < 1 || r.line > lines {
				t.Fatalf("row %q: %+v", name, r)
			}
		}
	})
}
