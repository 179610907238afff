package mutation

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"headgate/e2e/harness"
)

// Build builds the program with all faults in it and returns its path. [Variable]
// in its environment activates one. The program is removed when the test ends. It
// is run through harness.Command.Program.
func Build(t testing.TB, faults ...Fault) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Dir(harness.Module(t))
	texts, _, err := apply(root, faults)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := writeOverlay(dir, texts)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "headgate")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", path, "./cmd/headgate")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build headgate with faults: %v\n%s", err, out)
	}
	return path
}

// writeOverlay puts files into dir and returns the path of the list that gives the
// compiler which files they replace.
func writeOverlay(dir string, texts map[string]string) (string, error) {
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
