package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"
)

// checkPackageDocs asks for a doc.go with a package comment in every room.
func checkPackageDocs(h *architecture) []Violation {
	var out []Violation
	for _, r := range h.tree.packages {
		if problem := docViolation(r); problem != "" {
			out = append(out, Violation{File: r.name, Message: problem})
		}
	}
	return out
}

func docViolation(r goPackage) string {
	for _, f := range r.files {
		if path.Base(f.path) != "doc.go" {
			continue
		}
		name, text := f.ast.Name.Name, f.ast.Doc.Text()
		if strings.TrimSpace(text) == "" {
			return "doc.go has no package comment: say what the room is for, its words and units"
		}
		if name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
			return fmt.Sprintf("the package comment in doc.go must start with %q", "Package "+name+" ")
		}
		return ""
	}
	return "no doc.go: say what the room is for, its words and units, in a package comment there"
}

// checkExports asks for a doc comment on every export outside tests.
func checkExports(h *architecture) []Violation {
	var out []Violation
	for _, r := range h.tree.packages {
		for _, f := range r.nonTestFiles() {
			for _, id := range undocumented(f.ast) {
				out = append(out, Violation{File: f.path, Line: h.tree.line(id.Pos()),
					Message: fmt.Sprintf("%s is exported and has no doc comment", id.Name)})
			}
		}
	}
	return out
}

// undocumented lists the exported names of a file that nothing is said about.
func undocumented(file *ast.File) []*ast.Ident {
	var out []*ast.Ident
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && receiverExported(d) && hasNoText(d.Doc) {
				out = append(out, d.Name)
			}
		case *ast.GenDecl:
			out = append(out, undocumentedSpecs(d)...)
		}
	}
	return out
}

// undocumentedSpecs looks at constants, variables and types. A comment on a
// group of constants or variables speaks for each of them; a type needs its own.
func undocumentedSpecs(d *ast.GenDecl) []*ast.Ident {
	var out []*ast.Ident
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			alone := d.Lparen == token.NoPos && !hasNoText(d.Doc)
			if s.Name.IsExported() && !alone && hasNoText(s.Doc) {
				out = append(out, s.Name)
			}
		case *ast.ValueSpec:
			if !hasNoText(d.Doc) || !hasNoText(s.Doc) || !hasNoText(s.Comment) {
				continue
			}
			for _, name := range s.Names {
				if name.IsExported() {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// hasNoText says whether a comment has no text; directives are not text.
func hasNoText(c *ast.CommentGroup) bool { return strings.TrimSpace(c.Text()) == "" }

// receiverExported says whether a method can be seen from outside; a function can.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	name := receiverName(d.Recv.List[0].Type)
	return name != nil && name.IsExported()
}

func receiverName(expr ast.Expr) *ast.Ident {
	for {
		switch x := expr.(type) {
		case *ast.Ident:
			return x
		case *ast.StarExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		default:
			return nil
		}
	}
}
