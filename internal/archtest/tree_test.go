package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// source is one parsed file.
type source struct {
	path string // below the module's root
	test bool   // a _test.go file
	ast  *ast.File
}

// goPackage is one folder with Go files in it.
type goPackage struct {
	name  string // the folder below the module's root, "." for the root itself
	files []source
}

// tree is the module's source.
type tree struct {
	module        string // the module's import path
	fset          *token.FileSet
	packages      []goPackage // in the order in which the walk meets them
	nestedModules []string    // folders that are separate modules
}

// line gives a position's line number.
func (t *tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// modulePattern finds the module line of a go.mod file.
var modulePattern = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)

// readTree parses every Go file of the module at the root of fsys.
func readTree(fsys fs.FS) (*tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("read the module file: %w", err)
	}
	name := modulePattern.FindSubmatch(mod)
	if name == nil {
		return nil, errors.New("go.mod: no module line")
	}
	t := &tree{module: string(name[1]), fset: token.NewFileSet()}
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return t.enterDir(fsys, p)
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		return t.parse(fsys, p)
	})
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	return t, nil
}

// enterDir decides whether a folder belongs to the module.
func (t *tree) enterDir(fsys fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	switch base := path.Base(dir); {
	case base[0] == '.' || base[0] == '_', base == "testdata", base == "node_modules", base == "vendor":
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(dir, "go.mod")); err == nil {
		t.nestedModules = append(t.nestedModules, dir)
		return fs.SkipDir
	}
	return nil
}

// parse adds one file to its package. A package's files need not come in one go: the
// walk visits folders between them.
func (t *tree) parse(fsys fs.FS, p string) error {
	text, err := fs.ReadFile(fsys, p)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r := t.packageOf(path.Dir(p))
	r.files = append(r.files, source{path: p, test: strings.HasSuffix(p, "_test.go"), ast: file})
	return nil
}

func (t *tree) packageOf(name string) *goPackage {
	for i := range t.packages {
		if t.packages[i].name == name {
			return &t.packages[i]
		}
	}
	t.packages = append(t.packages, goPackage{name: name})
	return &t.packages[len(t.packages)-1]
}

// importPath returns what an import names, without its quotes.
func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil { // the parser has checked it
		return spec.Path.Value
	}
	return p
}
