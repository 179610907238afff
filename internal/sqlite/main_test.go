package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// childVar makes the test binary run one operation as a child process.
const childVar = "HEADGATE_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childVar); what != "" {
		if err := childModes[what](os.Args[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is a process that does one of the things in children.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// start starts a child. It is killed when the test ends, unless it has ended.
func start(t *testing.T, what string, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(exe, args...)}
	c.cmd.Env = append(os.Environ(), childVar+"="+what)
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// kill is kill -9.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// wantLine reads the child's next line.
func (c *child) wantLine(want string) {
	c.t.Helper()
	if !c.lines.Scan() || c.lines.Text() != want {
		c.t.Fatalf("the child said %q (%v), want %q", c.lines.Text(), c.lines.Err(), want)
	}
}

// remainingLines returns the lines that the child still says, until it ends.
func (c *child) remainingLines() []string {
	var out []string
	for c.lines.Scan() {
		out = append(out, c.lines.Text())
	}
	return out
}

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testOptions(dir string) Options { return Options{Dir: dir, Log: discardLog(), Writer: "tester"} }

// openTestStore opens a Store that is closed when the test ends.
func openTestStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// newModeChange returns a change of a pool.
func newModeChange(pool string, to admission.Mode) control.ModeChange {
	return control.ModeChange{
		ID: uuid.Must(uuid.NewV7()).String(), Writer: "tester", At: time.Now().UTC().Truncate(time.Millisecond), Pool: pool,
		Action: control.SetMode, From: admission.Enforce, To: to, RestoreMode: admission.Enforce, Actor: "anna", Via: control.ViaAPI,
		Reason: "to see", Running: 3, Queued: 7, Dropped: 1,
	}
}

func mustRecord(t testing.TB, s *Store, seen int64, changes ...control.ModeChange) {
	t.Helper()
	if err := s.RecordChanges(t.Context(), changes, seen); err != nil {
		t.Fatal(err)
	}
}

// allModeChanges returns the whole audit, newest first.
func allModeChanges(t testing.TB, s *Store) []control.ModeChange {
	t.Helper()
	var out []control.ModeChange
	for f := (control.AuditQuery{Limit: MaxLimit}); ; {
		page, next, err := s.ModeChanges(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page...)
		if next == "" {
			return out
		}
		f.After = next
	}
}

// withDeadline returns a context that ends after d.
func withDeadline(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// execSQL runs statements on a database file that no Store has open, past all checks.
func execSQL(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := openDB(t.Context(), fileDSN(path, accessWrite), accessWrite, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%.60s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// emptyRecord and smallRecord are database files without rows and with a few changes of mode. Most tests begin with a
// copy: migrating a new file takes longer than what they test.
var (
	emptyRecord = sync.OnceValues(func() ([]byte, error) { return makeRecord() })
	smallRecord = sync.OnceValues(func() ([]byte, error) {
		return makeRecord(newModeChange("a", admission.Observe), newModeChange("b", admission.PassThrough))
	})
)

// makeRecord returns the file of a record with changes.
func makeRecord(changes ...control.ModeChange) (file []byte, err error) {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := Open(context.Background(), testOptions(dir))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.RecordChanges(context.Background(), changes, 0), s.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, databaseName))
}

// copyRecord returns a data directory with a copy of a record, and its database.
func copyRecord(t testing.TB, record func() ([]byte, error)) (dir, path string) {
	t.Helper()
	file, err := record()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	path = filepath.Join(dir, databaseName)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// newRecordDir returns a data directory with a record of a few changes, and its database.
func newRecordDir(t testing.TB) (dir, path string) {
	t.Helper()
	return copyRecord(t, smallRecord)
}

// emptyRecordDir returns a data directory with a record that has no rows.
func emptyRecordDir(t testing.TB) string {
	t.Helper()
	dir, _ := copyRecord(t, emptyRecord)
	return dir
}

// rounds is how often a test repeats what a child process does, fewer times under the race detector, which slows children
// down. The acceptance tests of e2e kill hundreds of times.
func rounds(full, race int) int {
	if raceEnabled {
		return race
	}
	return full
}

// wantContains fails unless a text holds all parts.
func wantContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not say %q", text, p)
		}
	}
}
