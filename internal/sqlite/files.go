package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

const (
	databaseName = "headgate.db"
	lockName     = "headgate.lock"
)

// prepareDir makes the data directory, for its owner alone. One that is there is
// left as it is, since it may hold more than the record.
func prepareDir(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the data directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		log.Warn("others may write to the data directory", "dir", dir, "mode", mode.String(), "better", "0700")
	}
	return nil
}

// prepareFile makes an empty database if there is none, and sees to it that it
// and its companions are for their owner alone. SQLite gives the companions that
// it makes the permissions of the database. An existing database is not opened
// here: closing it again would strip SQLite's locks in this process.
func prepareFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
			return fmt.Errorf("make the record: %w", err)
		}
		dir := filepath.Dir(path)
		_ = syncDir(filepath.Dir(dir)) // the directory may be new, too; reading its parent may not be allowed
		return syncDir(dir)
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("make the record: %w", err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		if err := restrictPermissions(name); err != nil {
			return fmt.Errorf("look at the record: %w", err)
		}
	}
	return nil
}

// restrictPermissions takes the permissions of all others on a file away.
func restrictPermissions(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s must be a regular file, is %s", name, info.Mode().Type())
	case info.Mode().Perm()&0o177 == 0:
		return nil
	}
	return os.Chmod(name, 0o600)
}

// databasePath returns the path of the database in dir, or ErrNoRecord.
func databasePath(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, databaseName))
	if err != nil {
		return "", fmt.Errorf("find the record: %w", err)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: %w", path, ErrNoRecord)
	case err != nil:
		return "", fmt.Errorf("look at the record: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("look at the record: %s must be a regular file, is %s", path, info.Mode().Type())
	}
	return path, nil
}

// syncDir makes what was made or renamed in a directory survive loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("synchronise the directory: %w", err)
	}
	return nil
}
