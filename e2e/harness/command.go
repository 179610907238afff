package harness

import (
	"encoding/json"
	"testing"
	"time"
)

// CommandResult is a command that has ended.
type CommandResult struct {
	ExitCode  int
	Stdout    string
	Stderr    string
	Started   time.Time
	Duration  time.Duration
	mode      ModeResult
	decodeErr error
}

// ModeResult is what a command that changes modes prints with --json.
type ModeResult struct {
	Recorded     bool         `json:"recorded"`
	Changes      []ModeChange `json:"changes"`
	Path         string       `json:"path"`     // api or request
	Request      int64        `json:"request"`  // number of the request in the database
	Deferred     bool         `json:"deferred"` // it takes effect at the next start
	UndoCommands []string     `json:"undo_commands"`
}

// Command runs a command that finds the gate by flags.
func (g *Gate) Command(t testing.TB, args ...string) CommandResult {
	t.Helper()
	return RunCommand(t, g.Dir(), g.Admin, args...)
}

// RunCommand runs a command against an admin URL and the data directory of a folder.
func RunCommand(t testing.TB, dir, admin string, args ...string) CommandResult {
	t.Helper()
	return StartCommand(t, dir, admin, args...)()
}

// StartCommand starts a command and returns a function that waits for its end.
func StartCommand(t testing.TB, dir, admin string, args ...string) (wait func() CommandResult) {
	t.Helper()
	flags := []string{"--data-dir", DataDir(dir)}
	if admin != "" {
		flags = append(flags, "--admin", admin)
	}
	began := time.Now()
	p := Start(t, Command{Args: append(args, flags...), Dir: dir})
	return func() CommandResult {
		t.Helper()
		code := p.Wait(t)
		d := CommandResult{ExitCode: code, Stdout: p.Stdout(), Stderr: p.Stderr(), Started: began, Duration: time.Since(began)}
		d.decodeErr = json.Unmarshal([]byte(d.Stdout), &d.mode)
		return d
	}
}

// Result decodes what a command that changes modes has printed with --json.
func (d CommandResult) Result(t testing.TB) ModeResult {
	t.Helper()
	if d.decodeErr != nil {
		t.Fatalf("exit code %d, stderr %q, stdout is not JSON: %q", d.ExitCode, d.Stderr, d.Stdout)
	}
	return d.mode
}
