package archtest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testRow is the row that says what the test files of every package may import beyond their package's own row.
const testRow = "*_test.go"

// header is the first line of the table, cell by cell. The table is found by it.
var header = []string{"Package", "State", "May import", "Never"}

// row is one line of the table.
type row struct {
	pkg          string
	line         int
	planned      bool     // state "later"
	mayImportAll bool     // may import every package
	mayImport    []string // packages, or package/... for a package and all below it
	never        []string // packages, foreign packages, or clockName
}

// table holds the rows by package, and the names in the order of the file.
type table struct {
	file  string
	rows  map[string]row
	order []string
}

// at names a row for a message.
func (t *table) at(r row) string { return fmt.Sprintf("%s:%d", t.file, r.line) }

// parseTable finds the table in a Markdown text. Rows that make no sense come
// back as violations, so that all of them are reported at once; the error says that
// there is no table to read, or more than one.
func parseTable(file, text string) (*table, []Violation, error) {
	lines := strings.Split(text, "\n")
	start, err := findHeader(lines)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	t := &table{file: file, rows: map[string]row{}}
	var violations []Violation
	for i := start + 2; i < len(lines) && isRow(lines[i]); i++ {
		r, problem := parseRow(cells(lines[i]), i+1)
		if problem == "" {
			problem = t.add(r)
		}
		if problem != "" {
			violations = append(violations, Violation{File: file, Line: i + 1, Message: problem})
		}
	}
	if len(t.order) == 0 && len(violations) == 0 {
		return nil, nil, fmt.Errorf("%s:%d: the table of packages has no rows", file, start+1)
	}
	return t, append(violations, t.validate()...), nil
}

// findHeader returns the index of the table's first line.
func findHeader(lines []string) (int, error) {
	found := -1
	for i, line := range lines {
		if !isRow(line) || !slices.Equal(cells(line), header) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("two tables of packages, in lines %d and %d: keep one", found+1, i+1)
		}
		found = i
	}
	if found < 0 {
		return 0, errors.New("no table of packages: a line reading | " + strings.Join(header,
			" | ") + " | must start it")
	}
	if found+1 >= len(lines) || !strings.HasPrefix(strings.TrimSpace(lines[found+1]), "|-") {
		return 0, fmt.Errorf("line %d: a line of |---| must follow the head of the table", found+2)
	}
	return found, nil
}

// add keeps a row, unless its package has one already.
func (t *table) add(r row) string {
	if old, ok := t.rows[r.pkg]; ok {
		return fmt.Sprintf("package %s has a row already, in line %d", r.pkg, old.line)
	}
	t.rows[r.pkg] = r
	t.order = append(t.order, r.pkg)
	return ""
}

func isRow(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "|") }

// cells splits a table line and trims each cell.
func cells(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	parts := strings.Split(line, "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// clockName, in the last column, forbids every way to read or wait on a clock.
const clockName = "time.Now"

// namePattern matches the name of a package, with /... for all below.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*(/\.\.\.)?$`)

// stdRoots are the first elements of the standard library's import paths. They
// distinguish a package of the standard library from a misspelt one.
const stdRoots = " archive bufio bytes cmp compress container context crypto database debug embed encoding errors " +
	"expvar flag fmt go hash html image index io iter log maps math mime net os path plugin reflect regexp runtime " +
	"slices sort strconv strings structs sync syscall testing text time unicode unique unsafe weak "

// parseRow reads one line's cells; the string says what is wrong, if anything.
func parseRow(cell []string, line int) (row, string) {
	r := row{line: line}
	if len(cell) != len(header) {
		return r, fmt.Sprintf("a row of the table has %d cells, this one has %d", len(header), len(cell))
	}
	pkgs, problem := parseNames(cell[0])
	if problem != "" || len(pkgs) != 1 || strings.HasSuffix(pkgs[0], "/...") {
		return r, fmt.Sprintf("the first cell must name one package in backticks, is %q", cell[0])
	}
	r.pkg = pkgs[0]
	switch cell[1] {
	case "now", "later":
		r.planned = cell[1] == "later"
	default:
		return r, fmt.Sprintf("the state of %s must be now or later, is %q", r.pkg, cell[1])
	}
	if r.mayImportAll, r.mayImport, problem = parseMay(cell[2]); problem != "" {
		return r, fmt.Sprintf("what %s may import: %s", r.pkg, problem)
	}
	if r.never, problem = parseNever(cell[3]); problem != "" {
		return r, fmt.Sprintf("what %s must never import: %s", r.pkg, problem)
	}
	return r, ""
}

func parseMay(cell string) (all bool, may []string, problem string) {
	switch cell {
	case "nothing":
		return false, nil, ""
	case "everything":
		return true, nil, ""
	}
	may, problem = parseNames(cell)
	if problem != "" {
		problem += "; or write nothing, or everything"
	}
	return false, may, problem
}

func parseNever(cell string) ([]string, string) {
	if cell == "" || cell == "—" {
		return nil, ""
	}
	never, problem := parseNames(cell)
	if problem != "" {
		problem += "; or leave a dash"
	}
	return never, problem
}

// parseNames reads a list of names in backticks, separated by commas.
func parseNames(cell string) ([]string, string) {
	var names []string
	for item := range strings.SplitSeq(cell, ",") {
		item = strings.TrimSpace(item)
		name := strings.Trim(item, "`")
		if item != "`"+name+"`" || (name != testRow && !namePattern.MatchString(name)) {
			return nil, fmt.Sprintf("%q is not a name in backticks", item)
		}
		if slices.Contains(names, name) {
			return nil, fmt.Sprintf("%s is listed twice", name)
		}
		names = append(names, name)
	}
	return names, ""
}

// matchesPattern says whether a name of the table, which may end in /..., means package.
func matchesPattern(name, pkg string) bool {
	base, below := strings.CutSuffix(name, "/...")
	return pkg == base || (below && strings.HasPrefix(pkg, base+"/"))
}

// validate finds names that point at nothing, and rows that contradict themselves.
func (t *table) validate() []Violation {
	var out []Violation
	say := func(r row, format string, args ...any) {
		out = append(out, Violation{File: t.file, Line: r.line, Message: fmt.Sprintf(format, args...)})
	}
	for _, pkg := range t.order {
		r := t.rows[pkg]
		for _, name := range r.mayImport {
			switch {
			case !t.hasPackage(name):
				say(r, "row %s may import %s, which is no package of the table", pkg, name)
			case slices.Contains(r.never, name):
				say(r, "row %s both may and must never import %s", pkg, name)
			case name == pkg:
				say(r, "row %s lists itself", pkg)
			}
		}
		for _, name := range r.never {
			if !t.hasPackage(name) && !isExternal(name) {
				say(r,
					"row %s must never import %s, which is neither a package of the table nor a package that can be imported", pkg, name)
			}
		}
	}
	return out
}

// hasPackage says whether a name means at least one package that can be imported.
func (t *table) hasPackage(name string) bool {
	return slices.ContainsFunc(t.order, func(pkg string) bool { return pkg != testRow && matchesPattern(name, pkg) })
}

// isExternal says whether a name is an import path that is not ours.
func isExternal(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return name == clockName || strings.Contains(first, ".") || strings.Contains(stdRoots, " "+first+" ")
}

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
		{"import twice", "| `b` | now | `a`, `a` | — |", "a is listed twice"},
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

// FuzzParseTable: whatever the text, a package is kept once, with names that can
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
