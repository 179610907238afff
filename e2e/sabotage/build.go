package sabotage

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Edit replaces a text in a source file.
type Edit struct {
	File string // below the root of the main module, with slashes
	Old  string // must be in the file exactly once
	New  string
}

// Build builds the program with the edits made and returns its path. The program
// is removed when the test is over. Several edits of one file are made one after
// the other.
func Build(t testing.TB, edits ...Edit) string {
	t.Helper()
	return build(t, func(root string) (map[string]string, error) { return patch(root, edits) })
}

// build builds the program with some files in place of its own, or beside them.
func build(t testing.TB, files func(root string) (map[string]string, error)) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Dir(harness.Module(t))
	texts, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := write(dir, texts)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "headgate")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", path, "./cmd/headgate")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build headgate with a fault: %v\n%s", err, out)
	}
	return path
}

// write puts files into dir, by the paths that they stand in for, and one that
// tells the compiler of them, whose path it returns.
func write(dir string, texts map[string]string) (string, error) {
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for file, text := range texts {
		copied := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(file)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[file] = copied
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

// patch returns the edited files, by path.
func patch(root string, edits []Edit) (map[string]string, error) {
	texts := make(map[string]string)
	for _, e := range edits {
		file := filepath.Join(root, filepath.FromSlash(e.File))
		text, ok := texts[file]
		if !ok {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 || e.Old == "" {
			return nil, fmt.Errorf("%s holds %q %d times: it must be there once", e.File, e.Old, n)
		}
		texts[file] = strings.Replace(text, e.Old, e.New, 1)
	}
	return texts, nil
}
