//go:build proof

package acceptance

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/rollbacktest"
)

// What the Dockerfile builds can be built, and runs.
func TestDockerfileBuilds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headgate")
	rollbacktest.BuildAsDocker(t, file)
	said, err := exec.CommandContext(t.Context(), file, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "headgate v9.8.7 ") {
		t.Errorf("version: %v: %s", err, said)
	}
}
