package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

// TestOpenAtOnce: processes that find an empty directory at the same moment create
// one database, and each of them opens it in the end.
func TestOpenAtOnce(t *testing.T) {
	for _, n := range []int{2, 4} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			dir := t.TempDir()
			var cs []*child
			for i := range n {
				cs = append(cs, start(t, "open", dir, "pool"+strconv.Itoa(i)))
			}
			for _, c := range cs {
				c.wantLine("ready")
			}
			for _, c := range cs {
				if _, err := c.in.Write([]byte("go\n")); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range cs {
				if said := c.remainingLines(); len(said) > 0 {
					t.Errorf("a child said %q", said)
				}
				if err := c.cmd.Wait(); err != nil {
					t.Error(err)
				}
			}
			s := openTestStore(t, dir)
			if got, err := s.ModeStates(t.Context()); err != nil || len(got) != n {
				t.Errorf("%d standings, %v, want %d", len(got), err, n)
			}
			if v, err := schemaVersion(t.Context(), s.writer); err != nil || v != currentVersion(t) {
				t.Errorf("version %d, %v", v, err)
			}
		})
	}
}

// TestHolder: the error of the second process names the first, for as long as that one
// lives, and no longer.
func TestHolder(t *testing.T) {
	dir := t.TempDir()
	if _, running, err := Running(dir); running || err != nil {
		t.Errorf("running %v, %v in an empty directory", running, err)
	}
	c := start(t, "hold", dir)
	c.wantLine("ready")
	for range 2 { // the first attempt must not disturb the holder
		s, err := Open(t.Context(), testOptions(dir))
		if !errors.Is(err, ErrLocked) {
			t.Fatalf("%v, %v, want ErrLocked", s, err)
		}
		wantContains(t, err.Error(), dir, "process "+strconv.Itoa(c.cmd.Process.Pid), "127.0.0.1:8485")
	}
	h, running, err := Running(dir)
	host, _ := os.Hostname()
	if err != nil || !running || h.PID != c.cmd.Process.Pid || h.Host != host || h.Listen != "127.0.0.1:8485" {
		t.Errorf("holder %+v, %v, %v", h, running, err)
	}
	if age := time.Since(h.Started); age < 0 || age > time.Hour {
		t.Errorf("started %v", h.Started)
	}
	c.kill()
	if _, running, err := Running(dir); running || err != nil {
		t.Errorf("running %v, %v after kill -9", running, err)
	}
	openTestStore(t, dir)
	if h, running, err := Running(dir); !running || err != nil || h.PID != os.Getpid() {
		t.Errorf("holder %+v, %v, %v, want this process", h, running, err)
	}
}

// TestKill: what was acknowledged before kill -9 is there after it, and the
// standing is where the last change led. Each kill is on the same record.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var acknowledged []string
	for round := range rounds(20, 5) {
		c := start(t, "record", dir)
		for range 1 + 3*round { // a different moment each time
			if !c.lines.Scan() {
				t.Fatalf("round %d: the child ended by itself", round)
			}
			acknowledged = append(acknowledged, c.lines.Text())
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		acknowledged = append(acknowledged, c.remainingLines()...)
		_ = c.cmd.Wait()
		checkRecord(t, dir, acknowledged)
	}
}

// checkRecord opens a record after a kill, which checks its pages.
func checkRecord(t *testing.T, dir string, acknowledged []string) {
	t.Helper()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	changes := allModeChanges(t, s)
	there := map[string]bool{}
	for _, c := range changes {
		there[c.ID] = true
	}
	for i, id := range acknowledged {
		if !there[id] {
			t.Fatalf("change %d of %d, %s, was acknowledged and is gone", i+1, len(acknowledged), id)
		}
	}
	standings, err := s.ModeStates(t.Context())
	if err != nil || len(standings) != 1 {
		t.Fatalf("standings %v, %v", standings, err)
	}
	last := changes[0]
	if got := standings[0]; got.Mode != last.To || got.Reason != last.Reason || !got.Since.Equal(last.At) {
		t.Fatalf("the pool stands at %+v, the last change is %+v", got, last)
	}
}

// TestHeldFile: another process holds the database file. Record gives up in time
// and says why; readers go on; later it works.
func TestHeldFile(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	c := start(t, "exclusive", dir)
	c.wantLine("ready")
	late := newModeChange("p", admission.PassThrough)
	began := time.Now()
	err := s.RecordChanges(withDeadline(t, 400*time.Millisecond), []control.ModeChange{late}, 3)
	if !errors.Is(err, ErrBusy) {
		t.Fatalf("%v, want ErrBusy", err)
	}
	if took := time.Since(began); took >= callLimit {
		t.Errorf("gave up after %v: its own deadline did not count", took)
	}
	if _, err := QueueRequest(withDeadline(t, 400*time.Millisecond), dir, control.ModeRequest{Action: control.Rollback}); !errors.Is(err, ErrBusy) {
		t.Errorf("leave a request: %v, want ErrBusy", err)
	}
	if got := allModeChanges(t, s); len(got) != 1 {
		t.Errorf("readers see %d changes, want 1", len(got))
	}
	if _, _, err := ReadModeChanges(t.Context(), dir, control.AuditQuery{}); err != nil {
		t.Errorf("a command reads: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.RecordChanges(t.Context(), []control.ModeChange{late}, 3) }() // waits, rather than fail
	if _, err := c.in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("after the other has let go: %v", err)
	}
	if got := allModeChanges(t, s); len(got) != 2 {
		t.Errorf("%d changes, want 2", len(got))
	}
}

// TestLockReleasedOnKill: kill -9 of the process that holds the file frees it.
func TestLockReleasedOnKill(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	c := start(t, "exclusive", dir)
	c.wantLine("ready")
	c.kill()
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
}

// TestRequestsOfMany: commands at once, beside a service that consumes. Each
// request is seen once, in order, and none is lost.
func TestRequestsOfMany(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	var cs []*child
	for range 3 {
		cs = append(cs, start(t, "request", dir))
	}
	for _, c := range cs {
		c.wantLine("ready")
		if _, err := c.in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
	}
	var seen []int64
	ctx := withDeadline(t, time.Minute)
	for len(seen) < 60 && ctx.Err() == nil {
		var after int64
		if len(seen) > 0 {
			after = seen[len(seen)-1]
		}
		requests, err := s.QueuedRequests(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			seen = append(seen, r.Number)
			mustRecord(t, s, r.Number)
		}
	}
	var left []int64
	for _, c := range cs {
		for _, line := range c.remainingLines() {
			n, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				t.Fatalf("a child said %q", line)
			}
			left = append(left, n)
		}
	}
	slices.Sort(left)
	if !slices.Equal(seen, left) || len(seen) != 60 {
		t.Errorf("left %v\nseen %v", left, seen)
	}
}

// TestAuditReadableAfterKill: a command reads and copies what a killed service left in
// its write-ahead log, without the lock.
func TestAuditReadableAfterKill(t *testing.T) {
	dir := t.TempDir()
	c := start(t, "record", dir)
	if !c.lines.Scan() {
		t.Fatal("the child ended by itself")
	}
	first := c.lines.Text()
	c.kill()
	changes, _, err := ReadModeChanges(t.Context(), dir, control.AuditQuery{Limit: MaxLimit})
	if err != nil || len(changes) == 0 || changes[len(changes)-1].ID != first {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := BackupFrom(t.Context(), dir, to); err != nil {
		t.Fatal(err)
	}
	n, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback})
	if err != nil || n < 1 {
		t.Errorf("leave a request: %d, %v", n, err)
	}
	s := openTestStore(t, dir)
	if got, err := s.QueuedRequests(t.Context(), 0); err != nil || len(got) != 1 || got[0].Number != n {
		t.Errorf("at the next start: %v, %v, want number %d", got, err, n)
	}
}

// TestKillWhileMigrating: a migration that kill -9 ends, at any moment, is done again at
// the next start, and nothing is lost.
func TestKillWhileMigrating(t *testing.T) {
	dir := restoreDump(t, "schema4_drills.sql")
	runs := rounds(1000, 200)
	execSQL(t, filepath.Join(dir, databaseName), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+strconv.Itoa(runs)+`)
		INSERT INTO drill_runs SELECT id || '-' || i, at_ms + i, drill, name, version, cause, actor, speed, 0, started_ms, ended_ms, status, verdict, reason,
		missed, injected, clear_ns, recovered_ns, fence, opening, writer FROM n, drill_runs WHERE drill = 'slack-outage'`,
		`INSERT INTO drill_parts SELECT r.id, p.part, p.body, 'w' FROM drill_runs r, drill_parts p
		WHERE length(r.id) > 36 AND p.run = substr(r.id, 1, 36)`)
	for n := range rounds(6, 4) {
		c := start(t, "open", dir, "pool"+strconv.Itoa(n))
		c.wantLine("ready")
		if _, err := c.in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
		killed := time.AfterFunc(time.Duration(n*n)*15*time.Millisecond, func() { _ = c.cmd.Process.Kill() })
		_ = c.cmd.Wait()
		killed.Stop()
	}
	s := openTestStore(t, dir)
	if v, err := schemaVersion(t.Context(), s.writer); err != nil || v != currentVersion(t) {
		t.Errorf("version %d, %v", v, err)
	}
	if got := len(listRunIDs(t, s, drill.Query{Drill: "slack-outage", Limit: MaxLimit})); got != runs+1 {
		t.Errorf("%d runs, want %d", got, runs+1)
	}
}
