package rollbacktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Dockerfile returns the text of the Dockerfile.
func Dockerfile(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repoRoot(t), "docs", "packaging", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// BuildAsDocker builds the program with the build command of the Dockerfile, as version
// v9.8.7 and with more flags.
func BuildAsDocker(t testing.TB, file string, flags ...string) {
	t.Helper()
	const before, after = "RUN CGO_ENABLED=0 go build ", " -o /headgate ./cmd/headgate"
	_, line, found := strings.Cut(Dockerfile(t), before)
	own, _, ends := strings.Cut(line, after)
	if !found || !ends || strings.Contains(own, "\n") {
		t.Fatalf("the Dockerfile has no line %s…%s", before, after)
	}
	script := fmt.Sprintf("VERSION=v9.8.7 && CGO_ENABLED=0 go build %s %s -o '%s' ./cmd/headgate", strings.Join(flags, " "), own, file)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = repoRoot(t)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, said)
	}
}

// repoRoot is the folder of the whole checkout.
func repoRoot(t testing.TB) string {
	t.Helper()
	return filepath.Dir(harness.Module(t))
}
