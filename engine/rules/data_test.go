package rules

import (
	"path/filepath"
	"strings"
	"testing"
)

// Every file of tests passes.
func TestDataFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of tests: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test.yaml"), func(t *testing.T) {
			done, err := Test(t.Context(), file, settings())
			if err != nil {
				t.Fatal(err)
			}
			if len(done.Failures) > 0 {
				t.Error(done.Failures)
			}
			if done.Tests < 4 {
				t.Errorf("%d tests, want at least four: both sides of a threshold and of a for", done.Tests)
			}
		})
	}
}

// Every rule that is built in has its file of tests.
func TestEveryBuiltInRuleIsTested(t *testing.T) {
	for _, r := range builtIn(t, settings()) {
		if found, _ := filepath.Glob("testdata/" + r.Name + ".test.yaml"); len(found) != 1 {
			t.Errorf("rule %s has no file testdata/%[1]s.test.yaml", r.Name)
		}
	}
}
