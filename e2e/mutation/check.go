package mutation

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Check applies the faults and type-checks the packages that they change. The test
// fails with every edit that finds no place and every name that inserted code does
// not find. Nothing is built but what the packages import.
func Check(t testing.TB, faults ...Fault) {
	t.Helper()
	if err := check(filepath.Dir(harness.Module(t)), faults); err != nil {
		t.Error(err)
	}
}

func check(root string, faults []Fault) error {
	texts, m, err := apply(root, faults)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	parsed := make(map[Package][]*ast.File)
	patterns := make(map[string]bool)
	for pkg, p := range m.packages {
		patterns["./"+string(pkg)] = true
		paths := map[string]bool{filepath.Join(p.dir, addedFile): true}
		for _, s := range p.files {
			paths[s.path] = true
		}
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			file, err := parser.ParseFile(fset, path, text(texts, p, path), parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			parsed[pkg] = append(parsed[pkg], file)
			for _, at := range imports(file) {
				if at != "C" && at != "unsafe" {
					patterns[at] = true
				}
			}
		}
	}
	compiled, err := exports(root, slices.Sorted(maps.Keys(patterns)))
	if err != nil {
		return err
	}
	imported := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if compiled[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(compiled[path])
	})
	var problems []error
	for _, pkg := range slices.Sorted(maps.Keys(parsed)) {
		conf := types.Config{Importer: imported, Error: func(err error) { problems = append(problems, located(err)) }}
		_, _ = conf.Check(string(pkg), fset, parsed[pkg], nil) // the errors have been collected
	}
	return errors.Join(problems...)
}

func text(texts map[string]string, p *sources, path string) string {
	if changed, ok := texts[path]; ok {
		return changed
	}
	i := slices.IndexFunc(p.files, func(s *source) bool { return s.path == path })
	return p.files[i].text
}

// located names the fault where an error is in inserted code.
func located(err error) error {
	var e types.Error
	if !errors.As(err, &e) {
		return err
	}
	at := e.Fset.Position(e.Pos)
	if name := filepath.Base(at.Filename); strings.HasPrefix(name, "fault ") {
		pkg := filepath.Base(filepath.Dir(at.Filename))
		return fmt.Errorf("%s: package %s: %s (line %d of the code)", name, pkg, e.Msg, at.Line)
	}
	return fmt.Errorf("%s: %s", at, e.Msg)
}

// exports returns the files with the compiled exports of packages and all that they
// import, by import path.
func exports(root string, patterns []string) (map[string]string, error) {
	const format = "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export", "-f", format}, patterns...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w\n%s", err, stderr.String())
	}
	all := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[path] = file
		}
	}
	return all, nil
}
