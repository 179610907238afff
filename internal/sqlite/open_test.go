package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// filePermissions returns a file's permissions.
func filePermissions(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestPermissions: everything is for its owner alone, whatever was there before.
func TestPermissions(t *testing.T) {
	base := t.TempDir()
	for name, prepare := range map[string]func(dir string) error{
		"nothing there": func(string) error { return nil },
		"open files": func(dir string) error {
			s, err := Open(t.Context(), testOptions(dir))
			if err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
			return errors.Join(os.Chmod(filepath.Join(dir, databaseName), 0o666), os.Chmod(filepath.Join(dir, lockName), 0o666))
		},
		"an empty file": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, databaseName), nil, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(base, name, "below")
			if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), prepare(dir)); err != nil {
				t.Fatal(err)
			}
			s := openTestStore(t, dir)
			mustRecord(t, s, 0, newModeChange("p", admission.Observe))
			if got := filePermissions(t, dir); got != 0o700 {
				t.Errorf("directory: %v", got)
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 4 {
				t.Fatalf("%v, %v, want database, -wal, -shm and lock", files, err)
			}
			for _, f := range files {
				if got := filePermissions(t, filepath.Join(dir, f.Name())); got != 0o600 {
					t.Errorf("%s: %v", f.Name(), got)
				}
			}
		})
	}
}

// TestOpenDirectory: one that others may write to is left alone, and said.
func TestOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	o := testOptions(dir)
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	wantContains(t, said.String(), "others may write to the data directory", dir)
	if got := filePermissions(t, dir); got != 0o777 {
		t.Errorf("the directory became %v", got)
	}
}

// TestStrangePath: characters that mean something in a URI are only characters.
func TestStrangePath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a?mode=memory&b%20c#d é'\"")
	s := openTestStore(t, dir)
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil {
		t.Error(err)
	}
	if c, _, err := ReadModeChanges(t.Context(), dir, control.AuditQuery{}); err != nil || len(c) != 1 {
		t.Errorf("%v, %v", c, err)
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "file:copy?vfs=memdb")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "file:copy?vfs=memdb")); err != nil {
		t.Error(err)
	}
}

// TestSettings: the settings that the promises rest on are really on.
func TestSettings(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "journal_size_limit": journalLimit} {
		var got string
		if err := s.writer.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := s.reader.ExecContext(t.Context(), "DELETE FROM modes"); err == nil {
		t.Error("a reader can write")
	}
	if _, err := s.writer.ExecContext(t.Context(), "PRAGMA writable_schema = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.ExecContext(t.Context(), "UPDATE sqlite_schema SET sql = ''"); err == nil {
		t.Error("the structure can be written past SQLite")
	}
	if err := checkPragmas(t.Context(), s.reader, accessWrite); err == nil {
		t.Error("a reader passes for a writer: settings are not read back")
	}
}

// TestReopen: what was recorded is there at the next start.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	mustRecord(t, first, 4, newModeChange("p", admission.PassThrough))
	closeStore(t, first)
	s := openTestStore(t, dir)
	if got, err := s.ModeStates(t.Context()); err != nil || len(got) != 1 || got[0].Mode != admission.PassThrough {
		t.Errorf("%v, %v", got, err)
	}
	if n, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Restore}); err != nil || n != 5 {
		t.Errorf("number %d, %v, want 5", n, err)
	}
	for _, name := range []string{databaseName + "-wal"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestLeavesNothing: an ephemeral record touches no disk, and two are apart.
func TestLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	one, two := storeKinds["ephemeral"](t), storeKinds["ephemeral"](t)
	mustRecord(t, one, 0, newModeChange("p", admission.Observe))
	if got, err := two.ModeStates(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("the other record has %v, %v", got, err)
	}
	if err := one.Backup(t.Context(), "copy.db"); !errors.Is(err, ErrEphemeral) {
		t.Errorf("backup: %v, want ErrEphemeral", err)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) != 0 {
		t.Errorf("on disk: %v, %v", files, err)
	}
}

// TestInterruptedMemory: a record in memory outlives connections that were
// interrupted, which database/sql throws away.
func TestInterruptedMemory(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	for range 10 {
		ctx := withDeadline(t, 1)
		_ = s.RecordChanges(ctx, []control.ModeChange{newModeChange("q", admission.Observe)}, 0)
		_, _ = s.ModeStates(ctx)
	}
	if _, err := s.reader.ExecContext(withDeadline(t, 1e6), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n"); err == nil {
		t.Fatal("an endless statement ended")
	}
	if got, err := s.ModeStates(t.Context()); err != nil || len(got) == 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCannot: what a data directory cannot be.
func TestCannot(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"a file":       {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "make the data directory"},
		"below a file": {func(dir string) error { return os.Symlink(file, dir) }, "make the data directory"},
		"database a link": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink(file, filepath.Join(dir, databaseName)))
		}, "must be a regular file"},
		"database a dir": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, databaseName), 0o700) }, "must be a regular file"},
		"lock a link": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink(file, filepath.Join(dir, lockName)))
		}, "open the lock"},
		"lock a dir": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, lockName), 0o700) }, "open the lock"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(base, strings.ReplaceAll(name, " ", "-"))
			if err := tt.prepare(dir); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), testOptions(dir))
			if err == nil {
				closeStore(t, s)
				t.Fatal("opened")
			}
			wantContains(t, err.Error(), tt.want)
		})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("the file behind the links became %q, %v", text, err)
	}
}
