package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"headgate/engine"
	"headgate/runbooks/control"
)

// What can be wrong with the record, each with what to do about it.
var (
	// ErrBusy: not done in the time given, because another process holds the
	// file or the disk is slow. The outcome of a write is unknown; repeat it.
	ErrBusy = errors.New("the record was locked by another process, or the disk is slow; try again")
	// ErrFull: the disk or the quota is full.
	ErrFull = errors.New("no space left for the record; free some disk space")
	// ErrDisk: the disk, or the permissions on it, refuse.
	ErrDisk = errors.New("the record cannot be read or written; check the disk, and the owner and permissions of the data directory")
	// ErrCorrupt: what is in the file is not what headgate wrote.
	ErrCorrupt = errors.New("the record is damaged; restore a backup, or start with --ephemeral to run without it")
	// ErrLocked: another process serves from the same data directory.
	ErrLocked = errors.New("the data directory is in use")
	// ErrNewer: a newer headgate has written the record.
	ErrNewer = errors.New("the record was written by a newer headgate; use that version or a later one, or restore a backup made before it")
	// ErrOlder: the record has to be migrated, which only serving does.
	ErrOlder = errors.New("the record was written by an older headgate; start the service once to migrate it")
	// ErrNoRecord: there is no record yet.
	ErrNoRecord = errors.New("there is no record; either the service has never run with this data directory, or it runs with --ephemeral")
	// ErrClosed: the Store has been closed.
	ErrClosed = errors.New("the record is closed")
	// ErrNoIncident: there is none with that ID, or no longer.
	ErrNoIncident = fmt.Errorf("%w in the record; incidents that ended long ago are not kept", engine.ErrNoIncident)
	// ErrEphemeral: the record is in memory only.
	ErrEphemeral = errors.New("the record is in memory only, there is no file to copy")
)

// wrapErr says what was being done and what is wrong. The driver's own words are
// kept out of it, since they may repeat what a hostile file holds.
func wrapErr(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, classify(err))
}

// isSentinel says whether an error is one of the above already.
func isSentinel(err error) bool {
	for _, e := range []error{
		ErrBusy, ErrFull, ErrDisk, ErrCorrupt, ErrLocked, ErrNewer, ErrOlder, ErrNoRecord, ErrClosed, control.ErrUnknownCursor, ErrNoIncident, ErrEphemeral,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// classify maps SQLite's result codes to what a person can do about them.
func classify(err error) error {
	var e *driver.Error
	switch {
	case isSentinel(err):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w (%w)", ErrBusy, err)
	case !errors.As(err, &e):
		return err
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_INTERRUPT:
		return withCode(ErrBusy, e)
	case codes.SQLITE_FULL:
		return withCode(ErrFull, e)
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB, codes.SQLITE_TOOBIG, codes.SQLITE_FORMAT:
		return withCode(ErrCorrupt, e)
	case codes.SQLITE_IOERR, codes.SQLITE_CANTOPEN, codes.SQLITE_READONLY, codes.SQLITE_PERM, codes.SQLITE_PROTOCOL:
		return withCode(ErrDisk, e)
	}
	return fmt.Errorf("SQLite says %d, %.120q", e.Code(), e.Error())
}

// withCode adds SQLite's code and name for it.
func withCode(sentinel error, e *driver.Error) error {
	name := driver.ErrorCodeString[e.Code()]
	if name == "" {
		name = driver.ErrorCodeString[e.Code()&0xff]
	}
	if _, after, ok := strings.Cut(name, "("); ok {
		name = strings.TrimSuffix(after, ")")
	}
	return fmt.Errorf("%w (SQLite %d, %s)", sentinel, e.Code(), name)
}

// isBusy says whether trying again may help.
func isBusy(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code()&0xff == codes.SQLITE_BUSY || e.Code()&0xff == codes.SQLITE_LOCKED)
}
