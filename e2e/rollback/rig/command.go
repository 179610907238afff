package rig

import (
	"encoding/json"
	"testing"
	"time"

	"headgate/e2e/harness"
)

// Done is a command that has ended.
type Done struct {
	Code   int
	Out    string
	Err    string
	Began  time.Time
	Took   time.Duration
	reply  Reply
	failed error
}

// Command runs a command that finds the gate by flags.
func (r *Rig) Command(t testing.TB, args ...string) Done {
	t.Helper()
	return RunAt(t, r.Dir, r.Admin, args...)
}

// RunAt runs a command against an admin URL and the data directory of a folder.
func RunAt(t testing.TB, dir, admin string, args ...string) Done {
	t.Helper()
	return BeginAt(t, dir, admin, args...)()
}

// BeginAt starts a command and returns what waits for its end.
func BeginAt(t testing.TB, dir, admin string, args ...string) (end func() Done) {
	t.Helper()
	flags := []string{"--data-dir", Data(dir)}
	if admin != "" {
		flags = append(flags, "--admin", admin)
	}
	began := time.Now()
	p := harness.Start(t, harness.Command{Args: append(args, flags...), Dir: dir})
	return func() Done {
		t.Helper()
		code := p.Wait(t)
		d := Done{Code: code, Out: p.Stdout(), Err: p.Stderr(), Began: began, Took: time.Since(began)}
		d.failed = json.Unmarshal([]byte(d.Out), &d.reply)
		return d
	}
}

// Reply is what a command with --json printed.
func (d Done) Reply(t testing.TB) Reply {
	t.Helper()
	if d.failed != nil {
		t.Fatalf("exit code %d, stderr %q, stdout is no JSON: %q", d.Code, d.Err, d.Out)
	}
	return d.reply
}
