package sabotage

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"testing"
)

// Variable is what names the fault that is at work in a program built by
// [BuildSwitched]. Unset, the program is as it should be.
const Variable = "SABOTAGED"

// BuildSwitched builds the program with all the edits made. In every package that
// one is made in, sabotaged("NAME") says whether the fault of that name is at work,
// for New to ask: one build then serves for all faults.
func BuildSwitched(t testing.TB, edits ...Edit) string {
	t.Helper()
	return build(t, func(root string) (map[string]string, error) { return switched(root, edits) })
}

// switched returns the edited files and, for each of their packages, one with the
// switch.
func switched(root string, edits []Edit) (map[string]string, error) {
	texts, err := patch(root, edits)
	if err != nil {
		return nil, err
	}
	added := make(map[string]string)
	for file, text := range texts {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly)
		if err != nil {
			return nil, err
		}
		added[filepath.Join(filepath.Dir(file), switchFile)] = fmt.Sprintf(switchText, parsed.Name.Name, Variable)
	}
	for file := range added {
		if _, taken := texts[file]; taken {
			return nil, errors.New(file + " is in the way")
		}
	}
	maps.Copy(texts, added)
	return texts, nil
}

const (
	switchFile = "zz_sabotaged.go"
	switchText = `package %s

import "os"

func sabotaged(name string) bool { return os.Getenv(%q) == name }
`
)
