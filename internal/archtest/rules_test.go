package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// TablePath is where the table of packages is read from, below the module's root.
const TablePath = "docs/ARCHITECTURE.md"

// Violation is one place where the source and the table differ.
type Violation struct {
	File    string // slash-separated, below the module's root
	Line    int    // counts from 1; 0 when the whole file or folder is meant
	Message string // what is wrong, and what would be right
}

// String renders the violation as file:line: message, or file: message.
func (v Violation) String() string {
	if v.Line == 0 {
		return fmt.Sprintf("%s: %s", v.File, v.Message)
	}
	return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Message)
}

// architecture is the input of every rule, and the violations so far.
type architecture struct {
	table      *table
	tree       *tree
	violations []Violation
}

// Check compares the module at the root of fsys with its table of packages and returns every violation, sorted by file
// and line. The error is for a module that cannot be read at all: no go.mod, no table, or a file that is not Go. Check
// keeps no state and may be called from several goroutines at once.
func Check(fsys fs.FS) ([]Violation, error) {
	doc, err := fs.ReadFile(fsys, TablePath)
	if err != nil {
		return nil, fmt.Errorf("read the table of packages: %w", err)
	}
	h := &architecture{}
	if h.table, h.violations, err = parseTable(TablePath, string(doc)); err != nil {
		return nil, err
	}
	if h.tree, err = readTree(fsys); err != nil {
		return nil, err
	}
	h.checkRows()
	h.eachFile(func(pkg goPackage, f source) {
		h.checkImports(pkg, f)
		h.checkNames(f)
		h.checkInit(f)
		if !f.test {
			h.checkClock(pkg, f)
			h.checkLoggers(f)
			h.checkExports(f)
		}
	})
	for _, pkg := range h.tree.packages {
		if problem := packageDocProblem(pkg); problem != "" {
			h.report(pkg.name, 0, "%s", problem)
		}
	}
	slices.SortFunc(h.violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return h.violations, nil
}

func (h *architecture) report(file string, line int, format string, args ...any) {
	h.violations = append(h.violations, Violation{file, line, fmt.Sprintf(format, args...)})
}

// reportAt reports a place in a file.
func (h *architecture) reportAt(f source, pos token.Pos, format string, args ...any) {
	h.report(f.path, h.tree.line(pos), format, args...)
}

func (h *architecture) eachFile(check func(goPackage, source)) {
	for _, pkg := range h.tree.packages {
		for _, f := range pkg.files {
			check(pkg, f)
		}
	}
}

// checkRows compares the rows with the folders: no package without a row, no row that says now without a package, none
// that says later with one.
func (h *architecture) checkRows() {
	exists := map[string]bool{}
	for _, pkg := range h.tree.packages {
		exists[pkg.name] = true
		if _, ok := h.table.rows[pkg.name]; !ok {
			h.report(pkg.name, 0, "package without a row: say in the table of %s what it may import", h.table.file)
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
			h.report(h.table.file, r.line, "package %s exists: its state is now, not later", name)
		case !r.planned && !exists[name]:
			h.report(h.table.file, r.line,
				"row without a package: there is no Go code in %s; its state is later, or the row goes", name)
		}
	}
}

// checkImports compares every import with the row of its package. checkRows reports a package without a row.
func (h *architecture) checkImports(pkg goPackage, f source) {
	r, ok := h.table.rows[pkg.name]
	if !ok {
		return
	}
	for _, spec := range f.ast.Imports {
		if why := h.forbids(r, f.test, importPath(spec)); why != "" {
			h.reportAt(f, spec.Pos(), "%s must not import %s: its row (%s) %s", pkg.name, importPath(spec),
				h.table.at(r), why)
		}
	}
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

// testMayImport says whether the row for test files allows a package.
func (h *architecture) testMayImport(target string) bool {
	r, ok := h.table.rows[testRow]
	return ok && (r.mayImportAll || slices.ContainsFunc(r.mayImport,
		func(name string) bool { return matchesPattern(name, target) }))
}

// moduleRelative turns an import path into a package's name; the root itself is ".".
func (h *architecture) moduleRelative(imported string) (string, bool) {
	if imported == h.tree.module {
		return ".", true
	}
	return strings.CutPrefix(imported, h.tree.module+"/")
}

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

// checkClock finds clocks in packages that must take the time from their caller.
func (h *architecture) checkClock(pkg goPackage, f source) {
	if r, ok := h.table.rows[pkg.name]; ok && slices.Contains(r.never, clockName) {
		h.findUses(f, "time", clockFuncs, fmt.Sprintf("%s takes the time from its caller (%s says never %s)", pkg.name,
			h.table.at(r), clockName))
	}
}

// checkLoggers finds process-wide loggers.
func (h *architecture) checkLoggers(f source) {
	const tail = "the logger is passed in as a *slog.Logger"
	h.findUses(f, "log/slog", slogFuncs, tail)
	h.findUses(f, "log", logFuncs, tail)
}

// findUses finds every mention of one of a package's functions, called or only passed on, under whatever name the file
// imports the package. A dot import is a violation as such, since it hides them.
func (h *architecture) findUses(f source, pkg string, funcs []string, tail string) {
	local := map[string]bool{}
	for _, spec := range f.ast.Imports {
		switch {
		case importPath(spec) != pkg:
		case spec.Name == nil:
			local[path.Base(pkg)] = true
		case spec.Name.Name == ".":
			h.reportAt(f, spec.Pos(), "a dot import of %s hides what is used of it: %s", pkg, tail)
		default:
			local[spec.Name.Name] = true
		}
	}
	if len(local) == 0 {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && local[x.Name] && slices.Contains(funcs, sel.Sel.Name) {
			h.reportAt(f, sel.Pos(), "%s.%s: %s", path.Base(pkg), sel.Sel.Name, tail)
		}
		return true
	})
}

// vagueNames say nothing about what is inside, so everything ends up there.
var vagueNames = []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "shared"}

// checkNames refuses packages whose name says nothing.
func (h *architecture) checkNames(f source) {
	if name := strings.TrimSuffix(f.ast.Name.Name, "_test"); slices.Contains(vagueNames, name) {
		h.reportAt(f, f.ast.Package, "a package named %s: name it after what it does", name)
	}
}

// checkInit refuses func init, in tests too: what must happen at start is called by name, so that one can see when, and
// in which order.
func (h *architecture) checkInit(f source) {
	for _, decl := range f.ast.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
			h.reportAt(f, d.Pos(), "func init: call it by name from where it is needed")
		}
	}
}

// packageDocProblem asks for a doc.go with a package comment.
func packageDocProblem(pkg goPackage) string {
	for _, f := range pkg.files {
		if path.Base(f.path) != "doc.go" {
			continue
		}
		name, text := f.ast.Name.Name, f.ast.Doc.Text()
		if strings.TrimSpace(text) == "" {
			return "doc.go has no package comment: say what the package is for, its words and units"
		}
		if name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
			return fmt.Sprintf("the package comment in doc.go must start with %q", "Package "+name+" ")
		}
		return ""
	}
	return "no doc.go: say what the package is for, its words and units, in a package comment there"
}

// checkExports asks for a doc comment on every export.
func (h *architecture) checkExports(f source) {
	for _, id := range undocumented(f.ast) {
		h.reportAt(f, id.Pos(), "%s is exported and has no doc comment", id.Name)
	}
}

// undocumented lists the exported names of a file without a doc comment.
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
// group of constants or variables documents each of them; a type needs its own.
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
	var name *ast.Ident // the first one of the type: T in *T[K]
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == nil {
			name = id
		}
		return name == nil
	})
	return name != nil && name.IsExported()
}
