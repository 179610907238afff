package rollbacktest

import (
	"encoding/json"
	"testing"
	"time"

	"headgate/e2e/harness"
)

// CommandResult is a command that has ended.
type CommandResult struct {
	ExitCode  int
	Stdout    string
	Stderr    string
	Started   time.Time
	Duration  time.Duration
	result    ModeResult
	decodeErr error
}

// Command runs a command that finds the gate by flags.
func (r *Instance) Command(t testing.TB, args ...string) CommandResult {
	t.Helper()
	return RunAt(t, r.Dir, r.Admin, args...)
}

// RunAt runs a command against an admin URL and the data directory of a folder.
func RunAt(t testing.TB, dir, admin string, args ...string) CommandResult {
	t.Helper()
	return StartAt(t, dir, admin, args...)()
}

// StartAt starts a command and returns what waits for its end.
func StartAt(t testing.TB, dir, admin string, args ...string) (end func() CommandResult) {
	t.Helper()
	flags := []string{"--data-dir", DataDir(dir)}
	if admin != "" {
		flags = append(flags, "--admin", admin)
	}
	began := time.Now()
	p := harness.Start(t, harness.Command{Args: append(args, flags...), Dir: dir})
	return func() CommandResult {
		t.Helper()
		code := p.Wait(t)
		d := CommandResult{ExitCode: code, Stdout: p.Stdout(), Stderr: p.Stderr(), Started: began, Duration: time.Since(began)}
		d.decodeErr = json.Unmarshal([]byte(d.Stdout), &d.result)
		return d
	}
}

// ModeResult is what a command with --json printed.
func (d CommandResult) Result(t testing.TB) ModeResult {
	t.Helper()
	if d.decodeErr != nil {
		t.Fatalf("exit code %d, stderr %q, stdout is no JSON: %q", d.ExitCode, d.Stderr, d.Stdout)
	}
	return d.result
}
