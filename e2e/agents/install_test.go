//go:build agents

package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"headgate/e2e/harness"
)

// install gets the agents from npm, once, and returns the folder of their
// modules. Their install scripts are not run.
func install(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(harness.Module(t), "agents")
	modules := filepath.Join(dir, "node_modules")
	if installed(modules) {
		return modules
	}
	t.Log("installing the agents, about 1 GB")
	cmd := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install in e2e/agents: %v\n%s", err, out)
	}
	if !installed(modules) {
		t.Fatalf("npm has not installed %s: the agents are for Linux on x86-64", filepath.Join(modules, opencodeBinary))
	}
	return modules
}

func installed(modules string) bool {
	for _, file := range []string{codexScript, opencodeBinary} {
		if _, err := os.Stat(filepath.Join(modules, file)); err != nil {
			return false
		}
	}
	return true
}
