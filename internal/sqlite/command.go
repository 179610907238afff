package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

const insertRequest = `
INSERT INTO mode_requests (at_ms, pool, action, mode, expected, drop_overdue, actor, reason, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

const insertNumberedRequest = `
INSERT INTO mode_requests (at_ms, pool, action, mode, expected, drop_overdue, actor, reason, writer, number) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// QueueRequest leaves an order in the record of a data directory, for the service
// that runs there or the next one that starts there, and returns its number. It
// is for commands that cannot reach the service. When it returns nil the request
// survives loss of power. With ErrBusy the outcome is unknown; a second request
// does no harm. ErrNoRecord, ErrNewer and ErrOlder: nothing was left.
func QueueRequest(ctx context.Context, dir string, o control.ModeRequest) (number int64, err error) {
	if err := validateRequest(o); err != nil {
		return 0, fmt.Errorf("leave a request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	number, err = withDatabase(ctx, dir, accessWrite, func(db *sql.DB) (n int64, err error) {
		err = inTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			n, err = queueRequest(ctx, tx, o)
			return err
		})
		return n, err
	})
	return number, wrapErr("leave a request", err)
}

// validateRequest refuses orders that the service would pass over, or that would be cut.
func validateRequest(o control.ModeRequest) error {
	modes := admission.Modes()
	switch {
	case !isRequestAction(o.Action):
		return fmt.Errorf("its action must be rollback, restore or mode, is %.40q", o.Action)
	case !slices.Contains(modes, o.Mode), o.Expected != nil && !slices.Contains(modes, *o.Expected):
		return errors.New("no such mode")
	case clean(o.Pool, maxName) != o.Pool:
		return fmt.Errorf("its pool must be a name of at most %d bytes", maxName)
	case clean(o.Actor, maxName) != o.Actor:
		return fmt.Errorf("its actor must be a name of at most %d bytes", maxName)
	}
	return nil
}

// queueRequest inserts a request. Its number must be above all that were dealt with, or
// it would be passed over; AUTOINCREMENT alone does not promise that, since the
// two are kept in different tables.
func queueRequest(ctx context.Context, tx *sql.Tx, o control.ModeRequest) (int64, error) {
	done, err := lastHandledRequest(ctx, tx)
	if err != nil {
		return 0, err
	}
	mode, overdue := "", 0
	if o.Action == control.SetMode {
		mode = o.Mode.String()
	}
	if o.DropOverdue {
		overdue = 1
	}
	host, _ := os.Hostname()
	values := []any{
		time.Now().UnixMilli(), o.Pool, string(o.Action), mode, modeOrEmpty(o.Expected), overdue, o.Actor, clean(o.Reason, maxReason),
		clean(fmt.Sprintf("command %d on %s", os.Getpid(), host), maxName),
	}
	number, err := insertReturningID(ctx, tx, insertRequest, values)
	if err != nil || number > done {
		return number, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM mode_requests WHERE number = ?", number); err != nil {
		return 0, err
	}
	return insertReturningID(ctx, tx, insertNumberedRequest, append(values, done+1))
}

func insertReturningID(ctx context.Context, tx *sql.Tx, text string, values []any) (int64, error) {
	done, err := tx.ExecContext(ctx, text, values...)
	if err != nil {
		return 0, err
	}
	n, err := done.LastInsertId()
	if err == nil && (n <= 0 || n > maxNumber) {
		err = fmt.Errorf("%w: the requests have run out of numbers", ErrCorrupt)
	}
	return n, err
}

// withDatabase opens the database of a data directory for a moment, without the lock. It
// is not migrated: a service may be running on it.
func withDatabase[T any](ctx context.Context, dir string, a accessMode, f func(*sql.DB) (T, error)) (T, error) {
	path, err := databasePath(dir)
	if err != nil {
		var none T
		return none, err
	}
	return runBounded(ctx, make(chan struct{}, 1), func() (T, error) {
		for {
			v, err := withDatabaseFile(ctx, fileDSN(path, a), a, f)
			if !isBusy(err) || !sleepCtx(ctx, retryPause) {
				return v, err
			}
		}
	})
}

func withDatabaseFile[T any](ctx context.Context, name url.URL, a accessMode, f func(*sql.DB) (T, error)) (v T, err error) {
	db, err := openDB(ctx, name, a, 1)
	if err != nil {
		return v, err
	}
	defer func() { _ = db.Close() }() // what f has committed stands, however closing ends
	if err := checkVersion(ctx, db); err != nil {
		return v, err
	}
	return f(db)
}

// checkVersion sees to it that a database is the one that the program knows.
func checkVersion(ctx context.Context, db *sql.DB) error {
	have, err := schemaVersion(ctx, db)
	if err != nil {
		return err
	}
	want, err := latestVersion(embeddedMigrations())
	if err != nil {
		return err
	}
	if err := compareVersions(have, want); err != nil {
		return err
	}
	return checkSchema(ctx, db, embeddedMigrations())
}
