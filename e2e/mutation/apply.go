package mutation

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is a file of a package.
type source struct {
	path    string
	text    string
	syntax  *ast.File
	inserts []insert
}

// sources is a package, without its tests.
type sources struct {
	dir      string
	name     string
	files    []*source
	declared strings.Builder // written to a separate file
}

// insert is a text that goes into a file. All of a file refer to its original text.
type insert struct {
	offset  int
	closes  bool // belongs after the text before offset, such as the end of a wrapped expression
	reach   int  // length of the node that is wrapped: outer ones open before and close after inner ones
	ordinal int
	text    string
}

// statementReach is that of whole statements: they are outside all expressions.
const statementReach = 1 << 30

// mutator applies faults to a module.
type mutator struct {
	root     string
	fset     *token.FileSet
	packages map[Package]*sources
	ordinal  int
	index    map[string][]string // packages of the module by the names of their functions; for errors
}

// apply makes the edits of all faults and returns the changed and added files by
// path. The error lists every edit that does not fit.
func apply(root string, faults []Fault) (map[string]string, *mutator, error) {
	m := &mutator{root: root, fset: token.NewFileSet(), packages: make(map[Package]*sources)}
	var problems problems
	for _, f := range faults {
		for _, e := range f.Edits {
			if err := m.edit(f.Name, e); err != nil {
				problems.add(f.Name, fmt.Sprintf("%s: %v", e.place.function, err))
			}
		}
	}
	if err := problems.err(); err != nil {
		return nil, nil, err
	}
	texts := make(map[string]string)
	for _, p := range m.packages {
		for _, s := range p.files {
			if len(s.inserts) > 0 {
				texts[s.path] = s.changed()
			}
		}
		added := filepath.Join(p.dir, addedFile)
		if slices.ContainsFunc(p.files, func(s *source) bool { return s.path == added }) {
			return nil, nil, fmt.Errorf("%s exists already", added)
		}
		texts[added] = fmt.Sprintf(addedText, p.name, Variable) + p.declared.String()
	}
	if err := m.addImports(texts); err != nil {
		return nil, nil, err
	}
	return texts, m, nil
}

// problems collects errors, each once with all the faults that it concerns.
type problems struct {
	texts  []string
	faults map[string][]string // by text
}

func (p *problems) add(fault, text string) {
	if p.faults == nil {
		p.faults = make(map[string][]string)
	}
	if p.faults[text] == nil {
		p.texts = append(p.texts, text)
	}
	p.faults[text] = append(p.faults[text], strconv.Quote(fault))
}

func (p *problems) err() error {
	var all []error
	for _, text := range p.texts {
		all = append(all, fmt.Errorf("%s (fault %s)", text, strings.Join(p.faults[text], ", ")))
	}
	return errors.Join(all...)
}

// addedFile is added to each package that has an edit.
const (
	addedFile = "zz_mutated.go"
	addedText = `package %s

var activeFault = os.Getenv(%q)

func mutated(name string) bool { return activeFault == name }
`
)

// String names the function for errors.
func (f Function) String() string { return strings.TrimSpace(string(f.pkg) + " " + f.name) }

func (m *mutator) load(pkg Package) (*sources, error) {
	if p, ok := m.packages[pkg]; ok {
		return p, nil
	}
	p := &sources{dir: filepath.Join(m.root, filepath.FromSlash(string(pkg)))}
	info, err := build.ImportDir(p.dir, 0)
	if err != nil {
		return nil, errors.New("package not found")
	}
	p.name = info.Name
	for _, name := range info.GoFiles {
		s, err := readSource(m.fset, filepath.Join(p.dir, name))
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, s)
	}
	m.packages[pkg] = p
	return p, nil
}

var asksForItself = regexp.MustCompile(`\bmutated\(\)`)

func (m *mutator) edit(fault string, e Edit) error {
	at := e.place
	p, err := m.load(at.function.pkg)
	if err != nil {
		return fmt.Errorf("%w%s", err, m.elsewhere(at.function))
	}
	if err := e.parse(); err != nil {
		return err
	}
	if fault == "" && asksForItself.MatchString(e.code) {
		return fmt.Errorf("code %q: calls mutated() for a fault without a name", e.code)
	}
	label := "/*line fault " + strings.NewReplacer(":", "-", "/", "-", "*", "-").Replace(fault) + ":1:1*/"
	code := asksForItself.ReplaceAllLiteralString(e.code, fmt.Sprintf("mutated(%q)", fault))
	if at.kind == declaration {
		p.declared.WriteString("\n" + label + code + "\n")
		return nil
	}
	s, body, err := m.function(p, at.function)
	if err != nil {
		return err
	}
	if at.kind == start {
		m.statement(s, body.Lbrace+1, label+code)
		return nil
	}
	where, err := m.locate(s, body, at)
	if err != nil {
		return err
	}
	switch at.kind {
	case before:
		m.insert(s, insert{text: label + code + "\n" + m.line(where.from)}, where.from, statementReach)
	case after:
		m.statement(s, where.to, label+code)
	case inside:
		m.statement(s, where.from, label+code)
	default:
		opening, closing, ok := strings.Cut(code, "$")
		if !ok || strings.Contains(closing, "$") {
			return fmt.Errorf("code %q: must contain $ once, for the original", e.code)
		}
		reach := int(where.to - where.from)
		m.insert(s, insert{text: label + opening + m.line(where.from)}, where.from, reach)
		m.insert(s, insert{text: label + closing + m.line(where.to), closes: true}, where.to, reach)
	}
	return nil
}

// parse checks the syntax of the code by itself, so that the error names the fault.
func (e Edit) parse() error {
	text := e.code
	switch e.place.kind {
	case declaration:
	case replaceExpression:
		text = "var _ = " + strings.ReplaceAll(text, "$", "original")
	default:
		text = "func _() {\n" + strings.ReplaceAll(text, "$", "original()") + "\n}"
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p;"+text, parser.SkipObjectResolution); err != nil {
		return fmt.Errorf("code %q: %w", e.code, err)
	}
	return nil
}

// statement inserts statements after a brace, a colon or another statement.
func (m *mutator) statement(s *source, pos token.Pos, text string) {
	m.insert(s, insert{text: "\n" + text + "\n" + m.line(pos)}, pos, statementReach)
}

func (m *mutator) insert(s *source, i insert, pos token.Pos, reach int) {
	m.ordinal++
	i.offset, i.reach, i.ordinal = m.fset.PositionFor(pos, false).Offset, reach, m.ordinal
	s.inserts = append(s.inserts, i)
}

// line has errors and traces after an insertion name the original line.
func (m *mutator) line(pos token.Pos) string {
	p := m.fset.PositionFor(pos, false)
	return fmt.Sprintf("/*line %s:%d:%d*/", p.Filename, p.Line, p.Column)
}

// changed returns the text with everything inserted.
func (s *source) changed() string {
	slices.SortFunc(s.inserts, func(a, b insert) int {
		switch {
		case a.offset != b.offset:
			return a.offset - b.offset
		case a.closes != b.closes:
			return map[bool]int{true: -1, false: 1}[a.closes]
		case a.closes:
			return cmp.Or(a.reach-b.reach, b.ordinal-a.ordinal)
		default:
			return cmp.Or(b.reach-a.reach, a.ordinal-b.ordinal)
		}
	})
	var b strings.Builder
	done := 0
	for _, i := range s.inserts {
		b.WriteString(s.text[done:i.offset])
		b.WriteString(i.text)
		done = i.offset
	}
	b.WriteString(s.text[done:])
	return b.String()
}

// span is where a place begins and ends.
type span struct{ from, to token.Pos }

// locate returns the one place that fits, and lists the candidates if none or
// several do.
func (m *mutator) locate(s *source, body *ast.BlockStmt, at Place) (span, error) {
	nodes, candidates, err := at.target.find(body)
	if err != nil {
		return span{}, err
	}
	var spans []span
	for _, f := range nodes {
		if at, ok := f.span(at.kind); ok && !slices.Contains(spans, at) {
			spans = append(spans, at)
		}
	}
	if n := at.target.nth; 0 < n && n <= len(spans) {
		return spans[n-1], nil
	}
	if len(spans) == 1 && at.target.nth == 0 {
		return spans[0], nil
	}
	if len(nodes) > 0 && len(spans) == 0 {
		return span{}, fmt.Errorf("%s is not part of a statement or branch of the kind that is sought", at.target)
	}
	if len(spans) > 1 && at.target.nth == 0 {
		lines := make([]string, 0, len(spans))
		for _, one := range spans {
			p := m.fset.PositionFor(one.from, false)
			lines = append(lines, fmt.Sprintf("%s:%d", filepath.Base(s.path), p.Line))
		}
		all := strings.Join(lines, ", ")
		return span{}, fmt.Errorf("%s found %d times, at %s: narrow it, or use Nth", at.target, len(spans), all)
	}
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	return span{}, fmt.Errorf("%s not found; there are: %s", at.target, list(candidates))
}

func (f found) span(kind placeKind) (span, bool) {
	switch kind {
	case inside:
		pos, ok := f.branch()
		return span{pos, pos}, ok
	case replaceExpression:
		_, ok := f.node.(ast.Expr)
		return span{f.node.Pos(), f.node.End()}, ok
	default:
		s, ok := f.statement()
		if !ok {
			return span{}, false
		}
		return span{s.Pos(), s.End()}, true
	}
}

func list(candidates []string) string {
	if len(candidates) == 0 {
		return "none"
	}
	if more := len(candidates) - maxCandidates; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(candidates[:maxCandidates], "; "), more)
	}
	return strings.Join(candidates, "; ")
}

// function returns the file and the body of a function.
func (m *mutator) function(p *sources, f Function) (*source, *ast.BlockStmt, error) {
	var similar []string
	for _, s := range p.files {
		for name, decl := range functions(s.syntax) {
			if name == f.name && decl.Body != nil {
				return s, decl.Body, nil
			}
			if related(name, f.name) {
				similar = append(similar, name)
			}
		}
	}
	slices.Sort(similar)
	return nil, nil, fmt.Errorf("function not found; similar ones: %s%s", list(similar), m.elsewhere(f))
}

// functions yields the functions and methods of a file by name.
func functions(file *ast.File) func(yield func(string, *ast.FuncDecl) bool) {
	return func(yield func(string, *ast.FuncDecl) bool) {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := decl.Name.Name
			if decl.Recv != nil && len(decl.Recv.List) == 1 {
				name = selector(decl.Recv.List[0].Type) + "." + name
			}
			if !yield(name, decl) {
				return
			}
		}
	}
}

// related says whether two functions have the type or the last name in common.
func related(a, b string) bool {
	typeA, nameA := split(a)
	typeB, nameB := split(b)
	return nameA == nameB || typeA != "" && typeA == typeB
}

func split(name string) (typ, last string) {
	if typ, last, ok := strings.Cut(name, "."); ok {
		return typ, last
	}
	return "", name
}

func readSource(fset *token.FileSet, path string) (*source, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(fset, path, b, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{path: path, text: string(b), syntax: file}, nil
}
