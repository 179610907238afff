package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// vagueNames say nothing about what is inside, so everything ends up there.
var vagueNames = []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "shared"}

// checkNames refuses rooms whose name says nothing.
func checkNames(h *architecture) []Violation {
	var out []Violation
	for _, r := range h.tree.packages {
		for _, f := range r.files {
			name := strings.TrimSuffix(f.ast.Name.Name, "_test")
			if slices.Contains(vagueNames, name) {
				out = append(out, Violation{File: f.path, Line: h.tree.line(f.ast.Package),
					Message: fmt.Sprintf("a package named %s: name it after what it does", name)})
			}
		}
	}
	return out
}

// checkInit refuses func init, in tests too: what must happen at start is called
// by name, so that one can see when, and in which order.
func checkInit(h *architecture) []Violation {
	var out []Violation
	for _, r := range h.tree.packages {
		for _, f := range r.files {
			for _, decl := range f.ast.Decls {
				if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
					out = append(out, Violation{File: f.path, Line: h.tree.line(d.Pos()),
						Message: "func init: call it by name from where it is needed"})
				}
			}
		}
	}
	return out
}
