package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// checkRows compares the rows with the folders: no room without a row, no row
// that says now without a room, none that says later with one.
func checkRows(h *architecture) []Violation {
	exists := map[string]bool{}
	var out []Violation
	for _, r := range h.tree.packages {
		exists[r.name] = true
		if _, ok := h.table.rows[r.name]; !ok {
			out = append(out, Violation{File: r.name, Message: fmt.Sprintf("room without a row: say in the table of %s what it may import", h.table.file)})
		}
	}
	for _, name := range h.tree.nestedModules {
		exists[name] = true
	}
	for _, name := range h.table.order {
		r := h.table.rows[name]
		switch {
		case name == testRow:
		case r.planned && exists[name]:
			out = append(out, Violation{File: h.table.file, Line: r.line, Message: fmt.Sprintf("room %s exists: its state is now, not later", name)})
		case !r.planned && !exists[name]:
			out = append(out, Violation{File: h.table.file, Line: r.line, Message: fmt.Sprintf("row without a room: there is no Go code in %s; its state is later, or the row goes", name)})
		}
	}
	return out
}

// checkImports compares every import with the row of its room.
func checkImports(h *architecture) []Violation {
	var out []Violation
	for _, r := range h.tree.packages {
		line, ok := h.table.rows[r.name]
		if !ok {
			continue // told by checkRows
		}
		for _, f := range r.files {
			for _, spec := range f.ast.Imports {
				if why := h.forbids(line, f.test, importPath(spec)); why != "" {
					out = append(out, Violation{File: f.path, Line: h.tree.line(spec.Pos()),
						Message: fmt.Sprintf("%s must not import %s: its row (%s) %s", r.name, importPath(spec), h.table.at(line), why)})
				}
			}
		}
	}
	return out
}

// forbids says why a row does not allow an import, or nothing if it does.
func (h *architecture) forbids(r row, test bool, imported string) string {
	target, ours := h.moduleRelative(imported)
	if !ours {
		i := slices.IndexFunc(r.never, func(name string) bool {
			return matchesPattern(strings.TrimSuffix(name, "/...")+"/...", imported)
		})
		if i < 0 || test {
			return ""
		}
		return "says never " + r.never[i]
	}
	if test && (target == r.pkg || h.testMayImport(target)) {
		return ""
	}
	match := func(name string) bool { return matchesPattern(name, target) }
	if i := slices.IndexFunc(r.never, match); i >= 0 {
		return "says never " + r.never[i]
	}
	if r.mayImportAll || slices.ContainsFunc(r.mayImport, match) {
		return ""
	}
	if len(r.mayImport) == 0 {
		return "allows nothing of ours"
	}
	return "allows only " + strings.Join(r.mayImport, ", ")
}

// testMayImport says whether the row for test files allows a room.
func (h *architecture) testMayImport(target string) bool {
	r, ok := h.table.rows[testRow]
	return ok && (r.mayImportAll || slices.ContainsFunc(r.mayImport, func(name string) bool { return matchesPattern(name, target) }))
}

// moduleRelative turns an import path into a room's name; the root itself is ".".
func (h *architecture) moduleRelative(imported string) (string, bool) {
	if imported == h.tree.module {
		return ".", true
	}
	return strings.CutPrefix(imported, h.tree.module+"/")
}
