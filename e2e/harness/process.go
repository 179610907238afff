package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a running program.
type Process struct {
	name       string
	cmd        *exec.Cmd
	stdout     logBuffer
	stderr     logBuffer
	allowPanic bool
	ended      chan struct{} // closed once the process has been waited for
}

// Command describes how to start a process.
type Command struct {
	// Program is the path of a program in place of [Binary]: one with a fault, whose log
	// may mention panics.
	Program string
	Args    []string
	// Env is the environment beside HOME and PATH.
	Env []string
	// Dir is the working directory; a new temporary one by default.
	Dir string
}

// Start starts the program. A process that is still running when the test ends gets SIGTERM
// and must exit with 0.
func Start(t testing.TB, c Command) *Process {
	t.Helper()
	p := newProcess(t, c)
	if err := startWithParent(p.cmd); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState has the result
	}()
	t.Cleanup(func() {
		if !p.hasEnded() {
			p.Stop(t)
		}
		p.checkLog(t)
	})
	return p
}

// RunToEnd runs the program until it ends by itself and returns the exit code.
func RunToEnd(t testing.TB, c Command) (p *Process, code int) {
	t.Helper()
	p = Start(t, c)
	return p, p.Wait(t)
}

func newProcess(t testing.TB, c Command) *Process {
	t.Helper()
	faulty := c.Program != ""
	if !faulty {
		c.Program = Binary(t)
	}
	p := &Process{
		name: "headgate " + strings.Join(c.Args, " "), cmd: exec.Command(c.Program, c.Args...),
		ended: make(chan struct{}), allowPanic: faulty,
	}
	p.cmd.Dir = c.Dir
	if c.Dir == "" {
		p.cmd.Dir = t.TempDir()
	}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.cmd.Dir}, c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = Timeout
	return p
}

// Signal sends a signal. It may be called from any goroutine.
func (p *Process) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %v to %s: %v", s, p.name, err)
	}
}

// Stop sends SIGTERM, waits for the end and expects exit code 0.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("%s ended with %s after SIGTERM, want exit code 0", p.name, p.cmd.ProcessState)
	}
}

// Wait waits for the end and returns the exit code, or -1 if a signal ended the process. A
// process that does not end within [Timeout] is killed, and fails the test.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(Timeout):
		t.Errorf("%s did not end within %v: killed", p.name, Timeout)
		_ = p.cmd.Process.Kill() // the error means that it has ended
		<-p.ended
	}
	return p.cmd.ProcessState.ExitCode()
}

// EndedBy reports whether a signal ended the process. Call it after Wait.
func (p *Process) EndedBy(s syscall.Signal) bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == s
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// PID is the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Dir is the working directory.
func (p *Process) Dir() string { return p.cmd.Dir }

// Stdout is the standard output so far.
func (p *Process) Stdout() string { return p.stdout.String() }

// Stderr is the standard error so far.
func (p *Process) Stderr() string { return p.stderr.String() }

// Field waits for a JSON log entry with a message, and returns one of its fields.
func (p *Process) Field(t testing.TB, message, field string) string {
	t.Helper()
	var value any
	Eventually(t, fmt.Sprintf("%s logs %q with %q", p.name, message, field), func() bool {
		entry, ok := p.stderr.findEntry(message)
		value = entry[field]
		if !ok && p.hasEnded() {
			t.Fatalf("%s ended with %s before it logged %q", p.name, p.cmd.ProcessState, message)
		}
		return ok && value != nil
	})
	return fmt.Sprint(value)
}

// checkLog fails the test if the log has a panic or a data race, and shows the log of a
// failed test.
func (p *Process) checkLog(t testing.TB) {
	t.Helper()
	log := p.Stderr()
	for _, never := range []string{"panic", "DATA RACE", "fatal error"} {
		if strings.Contains(log, never) && !(p.allowPanic && never == "panic") {
			t.Errorf("the log of %s has %q", p.name, never)
		}
	}
	if t.Failed() {
		t.Logf("stdout of %s:\n%s\nstderr:\n%s", p.name, tail(p.Stdout()), tail(log))
	}
}

// tail returns the last lines of a text.
func tail(s string) string {
	const most = 8 << 10
	if len(s) <= most {
		return s
	}
	_, rest, _ := strings.Cut(s[len(s)-most:], "\n")
	return "[…]\n" + rest
}

// maxLog limits the output that is kept of a process, in bytes.
const maxLog = 4 << 20

// logBuffer is the output of a process. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write never fails. It drops output above maxLog.
func (r *logBuffer) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf.Len() < maxLog {
		r.buf.Write(p)
	}
	return len(p), nil
}

func (r *logBuffer) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// findEntry returns the first JSON line whose msg is message.
func (r *logBuffer) findEntry(message string) (map[string]any, bool) {
	for line := range bytes.Lines([]byte(r.String())) {
		var fields map[string]any
		if json.Unmarshal(line, &fields) == nil && fields["msg"] == message {
			return fields, true
		}
	}
	return nil, false
}
