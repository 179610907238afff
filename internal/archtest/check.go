package archtest

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
)

// TablePath is where the table of rooms is read from, below the module's root.
const TablePath = "docs/ARCHITECTURE.md"

// Violation is one place where the source and the drawing differ.
type Violation struct {
	File    string // slash-separated, below the module's root
	Line    int    // counts from 1; 0 when the whole file or folder is meant
	Message string // what is wrong, and what would be right
}

// String renders the breach as file:line: message, or file: message.
func (b Violation) String() string {
	if b.Line == 0 {
		return fmt.Sprintf("%s: %s", b.File, b.Message)
	}
	return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Message)
}

// architecture is what every rule looks at.
type architecture struct {
	table *table
	tree  *tree
}

// Check compares the module at the root of fsys with its table of rooms and
// returns every breach, sorted by file and line; none means that the house is
// as drawn. The error is for a module that cannot be read at all: no go.mod, no
// table, or a file that is not Go. Check keeps no state and may be called from
// several goroutines at once.
func Check(fsys fs.FS) ([]Violation, error) {
	doc, err := fs.ReadFile(fsys, TablePath)
	if err != nil {
		return nil, fmt.Errorf("read the table of rooms: %w", err)
	}
	tab, breaches, err := parseTable(TablePath, string(doc))
	if err != nil {
		return nil, err
	}
	tr, err := readTree(fsys)
	if err != nil {
		return nil, err
	}
	h := &architecture{table: tab, tree: tr}
	rules := []func(*architecture) []Violation{
		checkRows, checkImports, checkClock, checkLoggers, checkInit, checkNames, checkPackageDocs, checkExports,
	}
	for _, rule := range rules {
		breaches = append(breaches, rule(h)...)
	}
	sortViolations(breaches)
	return breaches, nil
}

// sortViolations orders by file, then line, then message.
func sortViolations(list []Violation) {
	slices.SortFunc(list, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
}
