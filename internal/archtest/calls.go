package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
)

// clockFuncs read the clock or wait on it.
var clockFuncs = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// slogFuncs use or change the process-wide structured logger.
var slogFuncs = []string{
	"Default", "SetDefault", "SetLogLoggerLevel", "With", "Log", "LogAttrs", "Debug", "DebugContext",
	"Info", "InfoContext", "Warn", "WarnContext", "Error", "ErrorContext",
}

// logFuncs use or change the process-wide plain logger.
var logFuncs = []string{
	"Default", "SetFlags", "SetOutput", "SetPrefix", "Output", "Print", "Printf", "Println",
	"Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln",
}

// checkClock finds clocks in rooms that must take the time from their caller.
func checkClock(h *architecture) []Violation {
	var out []Violation
	for _, r := range h.tree.packages {
		line, ok := h.table.rows[r.name]
		if !ok || !slices.Contains(line.never, clockName) {
			continue
		}
		tail := fmt.Sprintf("%s takes the time from its caller (%s says never %s)", r.name, h.table.at(line), clockName)
		for _, f := range r.nonTestFiles() {
			out = append(out, h.findUses(f, "time", clockFuncs, tail)...)
		}
	}
	return out
}

// checkLoggers finds process-wide loggers outside tests.
func checkLoggers(h *architecture) []Violation {
	const tail = "the logger is handed in as a *slog.Logger"
	var out []Violation
	for _, r := range h.tree.packages {
		for _, f := range r.nonTestFiles() {
			out = append(out, h.findUses(f, "log/slog", slogFuncs, tail)...)
			out = append(out, h.findUses(f, "log", logFuncs, tail)...)
		}
	}
	return out
}

// findUses finds every mention of one of a package's functions, called or only
// passed on, under whatever name the file imports the package. A dot import is a
// breach as such, since it hides them.
func (h *architecture) findUses(f source, pkg string, funcs []string, tail string) []Violation {
	var out []Violation
	local := map[string]bool{}
	for _, spec := range f.ast.Imports {
		switch {
		case importPath(spec) != pkg:
		case spec.Name == nil:
			local[path.Base(pkg)] = true
		case spec.Name.Name == ".":
			out = append(out, Violation{File: f.path, Line: h.tree.line(spec.Pos()),
				Message: fmt.Sprintf("a dot import of %s hides what is used of it: %s", pkg, tail)})
		default:
			local[spec.Name.Name] = true
		}
	}
	if len(local) == 0 {
		return out
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && local[x.Name] && slices.Contains(funcs, sel.Sel.Name) {
			out = append(out, Violation{File: f.path, Line: h.tree.line(sel.Pos()),
				Message: fmt.Sprintf("%s.%s: %s", path.Base(pkg), sel.Sel.Name, tail)})
		}
		return true
	})
	return out
}
