//go:build agents

package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	codexScript    = "@openai/codex/bin/codex.js"
	opencodeBinary = "opencode-linux-x64/bin/opencode"
	prompt         = "In one sentence: what is a head gate?"
	// patience is how long an agent may take for its one task.
	patience = 4 * time.Minute
)

// agent is one of those that are tried.
type agent struct {
	name string
	// command writes the agent's settings into its home and returns the command
	// that does one task with the model behind base.
	command func(t *testing.T, modules, home, base string) []string
}

func agents() []agent {
	return []agent{{"codex", codex}, {"opencode", opencode}}
}

func codex(t *testing.T, modules, home, base string) []string {
	t.Helper()
	writeFile(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`model = "stub-model"
model_provider = "gate"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.gate]
name = "gate"
base_url = %q
wire_api = "responses"
`, base))
	return []string{"node", filepath.Join(modules, codexScript), "exec", "--skip-git-repo-check", "--sandbox", "read-only", prompt}
}

func opencode(t *testing.T, modules, home, base string) []string {
	t.Helper()
	writeFile(t, filepath.Join(home, ".config", "opencode", "opencode.json"), fmt.Sprintf(`{
  "autoupdate": false,
  "share": "disabled",
  "model": "gate/stub-model",
  "provider": {
    "gate": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "gate",
      "options": {"baseURL": %q, "apiKey": "made-up-key"},
      "models": {"stub-model": {"name": "stub-model", "limit": {"context": 128000, "output": 8000}}}
    }
  }
}
`, base))
	return []string{filepath.Join(modules, opencodeBinary), "run", "--model", "gate/stub-model", prompt}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run lets the agent do its task in a separate home directory and returns what it said.
// Whatever it has started is killed: not all of them obey SIGTERM.
func (a agent) run(t *testing.T, modules, base string) (said string, err error) {
	t.Helper()
	home := t.TempDir()
	args := a.command(t, modules, home, base)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	work := filepath.Join(home, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Dir = work
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.Cancel, cmd.WaitDelay = kill, 10*time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.Process != nil {
		_ = kill() // of what it has left behind
	}
	return out.String(), err
}
