package archtest

import (
	"errors"
	"fmt"
	"strings"
)

// testRow is the row that says what the test files of every room may import
// beyond their room's own row.
const testRow = "*_test.go"

// header is the first line of the table, cell by cell. The table is found by it.
var header = []string{"Room", "State", "May import (ours)", "Never"}

// row is one line of the table.
type row struct {
	pkg          string
	line         int
	planned      bool     // drawn, not built yet
	mayImportAll bool     // may import every room
	mayImport    []string // rooms, or room/... for a room and all below it
	never        []string // rooms, foreign packages, or clockName
}

// table is the drawing: the rows by room, and the names in the order of the file.
type table struct {
	file  string
	rows  map[string]row
	order []string
}

// at names a row for a message.
func (t *table) at(r row) string { return fmt.Sprintf("%s:%d", t.file, r.line) }

// parseTable finds the table in a Markdown text. Rows that make no sense come
// back as breaches, so that all of them are told at once; the error says that
// there is no table to read, or more than one.
func parseTable(file, text string) (*table, []Violation, error) {
	lines := strings.Split(text, "\n")
	start, err := findHeader(lines)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	t := &table{file: file, rows: map[string]row{}}
	var breaches []Violation
	for i := start + 2; i < len(lines) && isRow(lines[i]); i++ {
		r, problem := parseRow(cells(lines[i]), i+1)
		if problem == "" {
			problem = t.add(r)
		}
		if problem != "" {
			breaches = append(breaches, Violation{File: file, Line: i + 1, Message: problem})
		}
	}
	if len(t.order) == 0 && len(breaches) == 0 {
		return nil, nil, fmt.Errorf("%s:%d: the table of rooms has no rows", file, start+1)
	}
	return t, append(breaches, t.validate()...), nil
}

// findHeader returns the index of the table's first line.
func findHeader(lines []string) (int, error) {
	found := -1
	for i, line := range lines {
		if !isRow(line) || !equalCells(cells(line), header) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("two tables of rooms, in lines %d and %d: keep one", found+1, i+1)
		}
		found = i
	}
	if found < 0 {
		return 0, errors.New("no table of rooms: a line reading | " + strings.Join(header, " | ") + " | must start it")
	}
	if found+1 >= len(lines) || !strings.HasPrefix(strings.TrimSpace(lines[found+1]), "|-") {
		return 0, fmt.Errorf("line %d: a line of |---| must follow the head of the table", found+2)
	}
	return found, nil
}

// add keeps a row, unless its room has one already.
func (t *table) add(r row) string {
	if old, ok := t.rows[r.pkg]; ok {
		return fmt.Sprintf("room %s has a row already, in line %d", r.pkg, old.line)
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

func equalCells(a, b []string) bool {
	return strings.Join(a, "|") == strings.Join(b, "|")
}
