package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// recordUntilFull records changes until one is refused, and returns those that were not.
func recordUntilFull(t *testing.T, s *Store) (kept []control.ModeChange, err error) {
	t.Helper()
	for range 100_000 {
		c := newLargeChange("p")
		c.To = admission.Modes()[len(kept)%3]
		if err := s.RecordChanges(t.Context(), []control.ModeChange{c}, 0); err != nil {
			return kept, err
		}
		kept = append(kept, c)
	}
	t.Fatal("it never became full")
	return nil, nil
}

// checkFull holds a full record against its promise: what was acknowledged is
// there, what was refused is not there in part, reading goes on.
func checkFull(t *testing.T, s *Store, kept []control.ModeChange) {
	t.Helper()
	batch := []control.ModeChange{newLargeChange("x"), newLargeChange("y")}
	if err := s.RecordChanges(t.Context(), batch, 7); err != nil && !errors.Is(err, ErrFull) {
		t.Errorf("a second attempt: %v, want ErrFull again", err)
	}
	got := allModeChanges(t, s)
	if len(got) != len(kept) && len(got) != len(kept)+len(batch) { // all of the batch or nothing of it
		t.Errorf("%d changes, want %d", len(got), len(kept))
	}
	standings, err := s.ModeStates(t.Context())
	if err != nil || len(standings) == 0 || standings[0].Mode != kept[len(kept)-1].To {
		t.Errorf("%v, %v, want the mode of the last change that was kept", standings, err)
	}
}

// TestFull: SQLite finds no room for a page.
func TestFull(t *testing.T) {
	for kind, make := range storeKinds {
		t.Run(kind, func(t *testing.T) {
			s := make(t)
			mustRecord(t, s, 0, newModeChange("p", admission.Observe))
			var pages int
			if err := s.writer.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
				t.Fatal(err)
			}
			room := func(pages int) {
				if _, err := s.writer.ExecContext(t.Context(), "PRAGMA max_page_count = "+strconv.Itoa(pages)); err != nil {
					t.Fatal(err)
				}
			}
			room(pages + 8)
			kept, err := recordUntilFull(t, s)
			if !errors.Is(err, ErrFull) {
				t.Fatalf("%v, want ErrFull", err)
			}
			wantContains(t, err.Error(), "free some disk space", "SQLITE_FULL")
			// A batch: its first change fits nowhere, so nothing of it may stay.
			if err := s.RecordChanges(t.Context(), []control.ModeChange{newModeChange("x", admission.Observe), newLargeChange("y")}, 7); !errors.Is(err, ErrFull) {
				t.Errorf("%v, want ErrFull", err)
			}
			if got := allModeChanges(t, s); len(got) != len(kept)+1 {
				t.Errorf("%d changes, want %d", len(got), len(kept)+1)
			}
			room(pages + 1000)
			mustRecord(t, s, 7, newModeChange("x", admission.Observe))
		})
	}
}

// newLargeChange is a change that needs much of a page.
func newLargeChange(pool string) control.ModeChange {
	c := newModeChange(pool, admission.Observe)
	c.Reason = string(make([]byte, maxReason))
	return c
}

// TestFullDisk: a real file system without room.
func TestFullDisk(t *testing.T) {
	dir, ok := smallDisk(t)
	if !ok {
		return
	}
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	kept, err := recordUntilFull(t, s)
	if !errors.Is(err, ErrFull) {
		t.Fatalf("%v, want ErrFull", err)
	}
	checkFull(t, s, kept)
	if _, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback, Reason: string(make([]byte, maxReason))}); err != nil && !errors.Is(err, ErrFull) {
		t.Errorf("leave a request: %v, want ErrFull", err)
	}
	copied := filepath.Join(dir, "copy.db")
	if err := s.Backup(t.Context(), copied); !errors.Is(err, ErrFull) {
		t.Errorf("backup: %v, want ErrFull", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*copy*")); len(left) > 0 {
		t.Errorf("the failed backup left %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".copy*")); len(left) > 0 {
		t.Errorf("the failed backup left %v", left)
	}
	// With room again, nothing has to be started anew.
	if err := os.Remove(filepath.Join(dir, ballast)); err != nil {
		t.Fatal(err)
	}
	mustRecord(t, s, 0, newLargeChange("p"))
}

// TestNoRoomToStart: opening on a full disk is a clear error, and leaves no partial files.
func TestNoRoomToStart(t *testing.T) {
	dir, ok := smallDisk(t)
	if !ok {
		return
	}
	fillDisk(t, filepath.Join(dir, "stuffing"))
	if s, err := Open(t.Context(), testOptions(dir)); !errors.Is(err, ErrFull) {
		t.Fatalf("%v, %v, want ErrFull", s, err)
	}
	if err := os.Remove(filepath.Join(dir, "stuffing")); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	closeStore(t, s)
}

// ballast is a file that takes room away which a test gives back.
const ballast = "ballast"

// fillDisk takes all room that is left.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(classifyOS(err), ErrFull) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpoint: the write-ahead log does not stay as large as it once was.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	for range 50 {
		mustRecord(t, s, 0, newLargeChange("p"))
	}
	log := filepath.Join(dir, databaseName+"-wal")
	if info, err := os.Stat(log); err != nil || info.Size() == 0 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := s.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(log); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v, want an empty log", info, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.checkpoint(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if got := allModeChanges(t, s); len(got) != 50 {
		t.Errorf("%d changes, want 50", len(got))
	}
}

// TestCheckpointBesideReader: one who reads keeps the log from being emptied, which
// is no error.
func TestCheckpointBesideReader(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	conn, err := s.reader.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.QueryContext(t.Context(), "SELECT pool FROM modes UNION ALL SELECT pool FROM mode_changes")
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	mustRecord(t, s, 0, newModeChange("q", admission.Observe))
	if err := s.checkpoint(t.Context()); err != nil {
		t.Errorf("%v, want it to be tried again later", err)
	}
	if err := errors.Join(rows.Close(), conn.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.checkpoint(t.Context()); err != nil {
		t.Error(err)
	}
}
