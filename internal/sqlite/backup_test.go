package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// backupFuncs are the two ways to a backup.
var backupFuncs = map[string]func(context.Context, *Store, string, string) error{
	"service": func(ctx context.Context, s *Store, _, to string) error { return s.Backup(ctx, to) },
	"command": func(ctx context.Context, _ *Store, dir, to string) error { return BackupFrom(ctx, dir, to) },
}

// openBackup opens a copy of a backup as a separate store.
func openBackup(t *testing.T, backup string) *Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.Rename(backup, filepath.Join(dir, databaseName)); err != nil {
		t.Fatal(err)
	}
	return openTestStore(t, dir)
}

// TestBackupWhileWriting: a copy is one moment of the record, while the service
// goes on: all changes up to one, and the standing that the last of them led to.
func TestBackupWhileWriting(t *testing.T) {
	for way, take := range backupFuncs {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			s := openTestStore(t, dir)
			mustRecord(t, s, 1, childChange("p", 1))
			stop, started := make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 2; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if err := s.RecordChanges(t.Context(), []control.ModeChange{childChange("p", i)}, int64(i)); err != nil {
						t.Error(err)
						return
					}
					if i == 5 {
						close(started)
					}
				}
			})
			<-started
			for range 5 {
				to := filepath.Join(t.TempDir(), "copy.db")
				if err := take(t.Context(), s, dir, to); err != nil {
					t.Fatal(err)
				}
				if got := filePermissions(t, to); got != 0o600 {
					t.Errorf("the copy is %v", got)
				}
				checkCopy(t, openBackup(t, to))
			}
			close(stop)
			wg.Wait()
		})
	}
}

func checkCopy(t *testing.T, s *Store) {
	t.Helper()
	changes := allModeChanges(t, s)
	standings, err := s.ModeStates(t.Context())
	if err != nil || len(standings) != 1 || len(changes) < 5 {
		t.Fatalf("%v, %v, %d changes", standings, err, len(changes))
	}
	if standings[0].Reason != changes[0].Reason || standings[0].Mode != changes[0].To {
		t.Errorf("the copy stands at %+v, its last change is %+v", standings[0], changes[0])
	}
	if n, err := readConn(t.Context(), s.reader, lastHandledRequest); err != nil || int(n) != len(changes) {
		t.Errorf("requests up to %d are dealt with, %v, of %d changes", n, err, len(changes))
	}
}

// TestBackupRefuses: nothing is overwritten, nothing half is left.
func TestBackupRefuses(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	base := t.TempDir()
	taken, link, folder := filepath.Join(base, "taken"), filepath.Join(base, "link"), filepath.Join(base, "folder")
	err := errors.Join(os.WriteFile(taken, []byte("precious"), 0o600), os.Symlink(filepath.Join(base, "nowhere"), link), os.Mkdir(folder, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	for way, take := range backupFuncs {
		for to, want := range map[string]string{
			taken:                                 "exists",
			link:                                  "exists",
			folder:                                "exists",
			filepath.Join(dir, databaseName):      "exists",
			filepath.Join(base, "no", "such"):     "no such file or directory",
			filepath.Join(taken, "below a file"):  "not a directory",
			filepath.Join(base, "nul\x00in name"): "invalid argument",
		} {
			err := take(t.Context(), s, dir, to)
			if err == nil {
				t.Errorf("%s to %q: passed", way, to)
				continue
			}
			wantContains(t, err.Error(), want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := take(ctx, s, dir, filepath.Join(base, "late")); !errors.Is(err, ErrBusy) {
			t.Errorf("%s with an ended context: %v, want ErrBusy", way, err)
		}
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "precious" {
		t.Errorf("the file became %q, %v", text, err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 3 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBackupOfNothing: there is no record, or none any more.
func TestBackupOfNothing(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "copy.db")
	if err := BackupFrom(t.Context(), dir, to); !errors.Is(err, ErrNoRecord) {
		t.Errorf("%v, want ErrNone", err)
	}
	s := openTestStore(t, dir)
	closeStore(t, s)
	if err := s.Backup(t.Context(), to); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if err := BackupFrom(t.Context(), dir, to); err != nil {
		t.Errorf("the record of a service that has ended: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) < 2 {
		t.Errorf("%v, %v", files, err)
	}
}
