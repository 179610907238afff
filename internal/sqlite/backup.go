package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a copy of the record, as it is at one moment, to a file that must
// not exist yet. The service goes on meanwhile. The file is whole, for its owner
// alone, checked, and safe from loss of power when Backup returns nil; there is
// no file when it returns an error. ErrEphemeral: there is nothing to copy.
func (s *Store) Backup(ctx context.Context, path string) error {
	if s.path == "" {
		return ErrEphemeral
	}
	ctx, cancel := s.withLimit(ctx, copyLimit)
	defer cancel()
	// One slot of the readers: Close must wait for the copy to stop.
	_, err := runBounded(ctx, s.readSlots, func() (struct{}, error) { return struct{}{}, backup(ctx, s.path, path) })
	return s.wrapCallErr("back up the record to "+path, err)
}

// BackupFrom is Backup for a command: it copies the record in a data directory,
// whether or not a service runs there. ErrNoRecord: there is no record.
func BackupFrom(ctx context.Context, dir, path string) error {
	ctx, cancel := context.WithTimeout(ctx, copyLimit)
	defer cancel()
	from, err := databasePath(dir)
	if err != nil {
		return err
	}
	return wrapErr("back up the record to "+path, backup(ctx, from, path))
}

// backup copies a database into a file beside the new one, which gets its name
// only when it is whole: what a copy that was broken off left behind must not be
// taken for a backup.
func backup(ctx context.Context, from, to string) (err error) {
	to, err = filepath.Abs(to)
	if err != nil {
		return err
	}
	if err := mustNotExist(to); err != nil {
		return err
	}
	dir := filepath.Dir(to)
	f, err := os.CreateTemp(dir, "."+filepath.Base(to)+".partial-*") // 0600
	if err != nil {
		return classifyOS(err)
	}
	partial := f.Name()
	defer func() { _ = os.Remove(partial) }()
	if err := f.Close(); err != nil {
		return classifyOS(err)
	}
	if err := vacuumInto(ctx, from, partial); err != nil {
		if err = wrapErr("copy", err); errors.Is(err, ErrDisk) && diskFull(dir) {
			return fmt.Errorf("%w (%w)", ErrFull, err)
		}
		return err
	}
	if err := syncFile(partial); err != nil {
		return classifyOS(err)
	}
	if err := linkNoReplace(partial, to); err != nil {
		return classifyOS(err)
	}
	return syncDir(dir)
}

// vacuumInto copies a database into an empty file and checks the copy. To SQLite the
// copying counts as writing, but mode=ro keeps it from the database itself. The
// path is absolute, so that it is never taken for a URI.
func vacuumInto(ctx context.Context, from, to string) error {
	db, err := openDB(ctx, fileDSN(from, accessReadOnlyFile), accessWrite, 1)
	if err != nil {
		return err
	}
	err = checkFile(ctx, db, from) // the copy of a damaged record could look sound
	if err == nil {
		_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	db, err = openDB(ctx, fileDSN(to, accessReadOnlyFile), accessReadOnlyFile, 1)
	if err != nil {
		return err
	}
	return errors.Join(checkFile(ctx, db, to), db.Close())
}

// syncFile makes a file's content survive loss of power.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// linkNoReplace gives a file its name, unless that is taken.
func linkNoReplace(partial, to string) error {
	err := os.Link(partial, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := mustNotExist(to); err != nil { // a file system without links
		return err
	}
	return os.Rename(partial, to)
}

// mustNotExist refuses a name that is taken.
func mustNotExist(name string) error {
	_, err := os.Lstat(name)
	switch {
	case err == nil:
		return fmt.Errorf("%s exists, and is not overwritten", name)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}
