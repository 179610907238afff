package mutation

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// walk calls visit with the files of the module that are no tests.
func walk(root string, visit func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (nested == nil || name == "testdata" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		return visit(path)
	})
}

// elsewhere names the packages that have a function of this name.
func (m *mutator) elsewhere(f Function) string {
	if m.index == nil {
		m.index = make(map[string][]string)
		err := walk(m.root, func(path string) error {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir, _ := filepath.Rel(m.root, filepath.Dir(path))
			for name := range functions(file) {
				m.index[name] = append(m.index[name], filepath.ToSlash(dir))
			}
			return nil
		})
		if err != nil {
			return "; " + err.Error()
		}
	}
	if len(m.index[f.name]) == 0 {
		return ""
	}
	return "; there is one in " + strings.Join(m.index[f.name], ", ")
}

// addImports imports the packages that changed files use and do not import yet: by
// the name under which other files of the package import them, or else of the module.
func (m *mutator) addImports(texts map[string]string) error {
	everywhere, err := m.moduleImports()
	if err != nil {
		return err
	}
	for path, text := range texts {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, 0)
		if err != nil {
			return fmt.Errorf("changed source: %w", err)
		}
		local, imported, err := m.scope(texts, filepath.Dir(path))
		if err != nil {
			return err
		}
		var added strings.Builder
		for _, name := range missing(file, local) {
			at := cmp.Or(imported[name], everywhere[name])
			if at != "" { // otherwise the compiler says that the name is undefined
				fmt.Fprintf(&added, "; import %s %q", name, at)
			}
		}
		end := fset.PositionFor(file.Name.End(), false).Offset
		texts[path] = text[:end] + added.String() + text[end:]
	}
	return nil
}

// moduleImports returns what the files of the module import, by name. Names that stand
// for several packages are left out.
func (m *mutator) moduleImports() (map[string]string, error) {
	known := map[string]string{"os": "os"} // for the added file
	err := walk(m.root, func(path string) error {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for name, at := range imports(file) {
			if before, there := known[name]; there && before != at {
				at = ""
			}
			known[name] = at
		}
		return nil
	})
	return known, err
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// imports returns the paths that a file imports, by the names that they have in it.
func imports(file *ast.File) map[string]string {
	all := make(map[string]string)
	for _, s := range file.Imports {
		at, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(at)
		if version.MatchString(name) {
			name = path.Base(path.Dir(at))
		}
		if s.Name != nil {
			name = s.Name.Name
		}
		all[name] = at
	}
	return all
}

// scope returns what the files of a package declare and import.
func (m *mutator) scope(texts map[string]string, dir string) (map[string]bool, map[string]string, error) {
	names, imported := make(map[string]bool), make(map[string]string)
	add := func(file *ast.File) {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, id := range s.Names {
							names[id.Name] = true
						}
					}
				}
			}
		}
	}
	for _, p := range m.packages {
		if p.dir != dir {
			continue
		}
		for _, s := range p.files {
			add(s.syntax)
			maps.Copy(imported, imports(s.syntax))
		}
	}
	declared := texts[filepath.Join(dir, addedFile)]
	added, err := parser.ParseFile(token.NewFileSet(), addedFile, declared, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, fmt.Errorf("declarations: %w", err)
	}
	add(added)
	return names, imported, nil
}

// missing returns the names of packages that a file uses without an import.
func missing(file *ast.File, local map[string]bool) (names []string) {
	unresolved := make(map[*ast.Ident]bool)
	for _, id := range file.Unresolved {
		unresolved[id] = true
	}
	has := imports(file)
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := s.X.(*ast.Ident)
		if ok && unresolved[id] && !local[id.Name] && has[id.Name] == "" && !slices.Contains(names, id.Name) {
			names = append(names, id.Name)
		}
		return true
	})
	return names
}
