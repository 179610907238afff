package sqlite

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// newLargeRecord returns a data directory whose record has some dozens of pages, and the
// database's content.
func newLargeRecord(t testing.TB) (dir string, content []byte) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		mustRecord(t, s, 0, newLargeChange("p"))
	}
	saveBatch(t, s, newIncidentBatch("i-1"), planPost)
	closeStore(t, s)
	content, err = os.ReadFile(filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	return dir, content
}

// TestCorrupt: a damaged file is refused with what to do, and is left as it is.
func TestCorrupt(t *testing.T) {
	_, good := newLargeRecord(t)
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(b []byte) []byte {
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	for name, content := range map[string][]byte{
		"random":              noise(make([]byte, 50_000)),
		"text":                []byte("this is not a database, but it is longer than its header: " + string(make([]byte, 200))),
		"cut in the middle":   good[:len(good)/2],
		"cut inside a page":   good[:len(good)-1000],
		"cut inside page one": good[:2000],
		"header kept":         append(bytes.Clone(good[:100]), noise(make([]byte, len(good)-100))...),
		"page one kept":       append(bytes.Clone(good[:4096]), noise(make([]byte, len(good)-4096))...),
		"zeroes after it":     append(bytes.Clone(good[:4096]), make([]byte, len(good)-4096)...),
		"one byte":            {0x53},
		"one page of noise":   append(append(bytes.Clone(good[:8192]), noise(make([]byte, 4096))...), good[12288:]...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, databaseName)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), testOptions(dir))
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v, %v, want ErrCorrupt", s, err)
			}
			wantContains(t, err.Error(), path, "backup", "--ephemeral")
			if len(err.Error()) > 600 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
				t.Errorf("the file was changed (%v)", err)
			}
			if _, running, err := Running(dir); running || err != nil {
				t.Errorf("the lock is held after a refusal: %v, %v", running, err)
			}
			if err := BackupFrom(t.Context(), dir, path+".copy"); err == nil {
				t.Error("a damaged record was backed up")
			}
			if _, err := os.Stat(path + ".copy"); err == nil {
				t.Error("the failed backup left a file")
			}
		})
	}
}

// TestPutBack: a backup in the place of a damaged record is all that is needed.
func TestPutBack(t *testing.T) {
	dir, good := newLargeRecord(t)
	path, copied := filepath.Join(dir, databaseName), filepath.Join(t.TempDir(), "backup.db")
	if err := BackupFrom(t.Context(), dir, copied); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, good[:5000], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), testOptions(dir)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("%v, want ErrCorrupt", err)
	}
	if err := os.Rename(copied, path); err != nil {
		t.Fatal(err)
	}
	s := openTestStore(t, dir)
	if got := allModeChanges(t, s); len(got) != 40 {
		t.Errorf("%d changes, want 40", len(got))
	}
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
}

// FuzzFile: with any content of the file, nothing panics and everything ends; what
// opens is a database that can be read, or returns an error that says why not.
func FuzzFile(f *testing.F) {
	_, good := newLargeRecord(f)
	f.Add(0, []byte{}, len(good))
	f.Add(28, []byte{0xff, 0xff, 0xff, 0xff}, len(good))
	f.Add(100, []byte{2, 0, 1, 0}, len(good))
	f.Add(4096, bytes.Repeat([]byte{0x0d}, 50), len(good))
	f.Add(0, []byte("SQLite format 3\x00"), 16)
	f.Fuzz(func(t *testing.T, at int, patch []byte, size int) {
		content := bytes.Clone(good)
		if at >= 0 && at < len(content) {
			copy(content[at:], patch)
		}
		if size >= 0 && size < len(content) {
			content = content[:size]
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, databaseName), content, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx := withDeadline(t, 20*time.Second)
		_, _, audit := ReadModeChanges(ctx, dir, control.AuditQuery{})
		_, left := QueueRequest(ctx, dir, control.ModeRequest{Action: control.Rollback})
		s, err := Open(ctx, testOptions(dir))
		if err != nil {
			if !isSentinel(err) {
				t.Errorf("an error that does not say what to do: %v", err)
			}
			return
		}
		defer closeStore(t, s)
		_, standings := s.ModeStates(ctx)
		_, requests := s.QueuedRequests(ctx, 0)
		_, loaded := s.EngineJournal(nil).Load(ctx)
		_, _, listed := s.Incidents(ctx, IncidentFilter{})
		_, history := s.IncidentHistory(ctx, "i-1")
		_, pending := s.Outbox().Pending(ctx, 10)
		saved := s.SaveBatch(ctx, newIncidentBatch("i-2"), planPost)
		for _, err := range []error{audit, left, standings, requests, loaded, listed, history, pending, saved, s.RecordChanges(ctx, []control.ModeChange{newModeChange("p", admission.Observe)}, 1)} {
			if err != nil && !isSentinel(err) {
				t.Errorf("an error that does not say what to do: %v", err)
			}
			if errors.Is(err, ErrBusy) {
				t.Errorf("it did not end: %v", err)
			}
		}
	})
}
