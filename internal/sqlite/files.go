package sqlite

import (
	"context"
	"database/sql"
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
		return fmt.Errorf("inspect the data directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		log.Warn("others may write to the data directory", "dir", dir, "mode", mode.String(), "recommended", "0700")
	}
	return nil
}

// prepareFile makes an empty database if there is none, and makes sure that it
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
			return fmt.Errorf("inspect the record: %w", err)
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
		return "", fmt.Errorf("inspect the record: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("inspect the record: %s must be a regular file, is %s", path, info.Mode().Type())
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

// checkFile checks the whole open database at path.
func checkFile(ctx context.Context, db *sql.DB, path string) error {
	if err := checkSize(ctx, db, path); err != nil {
		return err
	}
	return checkPages(ctx, db)
}

// checkSize checks that the file ends where a page ends. SQLite takes what is
// missing of the last page for zeroes, and a file of less than a page for a new
// database. Only the write-ahead log may hold what the file lacks.
func checkSize(ctx context.Context, db *sql.DB, path string) error {
	log, err := fileSize(path + "-wal")
	if err != nil || log > 0 {
		return err
	}
	file, err := fileSize(path)
	if err != nil {
		return err
	}
	var page int64
	if err := db.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return err
	}
	if page <= 0 || file%page != 0 {
		return fmt.Errorf("%w: its file was cut off", ErrCorrupt)
	}
	return nil
}

// fileSize returns a file's size, 0 if there is none.
func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// checkPages has SQLite check all pages of a database.
func checkPages(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: the check of its pages says %.120q", ErrCorrupt, verdict)
	}
	return nil
}
