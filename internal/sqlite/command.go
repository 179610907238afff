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

const addRequest = `
INSERT INTO mode_requests (at_ms, pool, action, mode, expected, drop_overdue, actor, reason, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

const addRequestNumbered = `
INSERT INTO mode_requests (at_ms, pool, action, mode, expected, drop_overdue, actor, reason, writer, number) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// LeaveRequest leaves an order in the record of a data directory, for the service
// that runs there or the next one that starts there, and returns its number. It
// is for commands that cannot reach the service. When it returns nil the request
// survives loss of power. With ErrBusy the outcome is unknown; a second request
// does no harm. ErrNone, ErrNewer and ErrOlder: nothing was left.
func LeaveRequest(ctx context.Context, dir string, o control.Order) (number int64, err error) {
	if err := leavable(o); err != nil {
		return 0, fmt.Errorf("leave a request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	number, err = visit(ctx, dir, writing, func(db *sql.DB) (n int64, err error) {
		err = transact(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			n, err = leave(ctx, tx, o)
			return err
		})
		return n, err
	})
	return number, explain("leave a request", err)
}

// leavable refuses orders that the service would pass over, or that would be cut.
func leavable(o control.Order) error {
	modes := admission.Modes()
	switch {
	case !requestable(o.Action):
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

// leave inserts a request. Its number must be above all that were dealt with, or
// it would be passed over; AUTOINCREMENT alone does not promise that, since the
// two are kept in different tables.
func leave(ctx context.Context, tx *sql.Tx, o control.Order) (int64, error) {
	done, err := dealtWith(ctx, tx)
	if err != nil {
		return 0, err
	}
	mode, overdue := "", 0
	if o.Action == control.ToMode {
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
	number, err := insert(ctx, tx, addRequest, values)
	if err != nil || number > done {
		return number, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM mode_requests WHERE number = ?", number); err != nil {
		return 0, err
	}
	return insert(ctx, tx, addRequestNumbered, append(values, done+1))
}

func insert(ctx context.Context, tx *sql.Tx, text string, values []any) (int64, error) {
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

// visit opens the database of a data directory for a moment, without the lock. It
// is not migrated: a service may be running on it.
func visit[T any](ctx context.Context, dir string, a access, f func(*sql.DB) (T, error)) (T, error) {
	path, err := existing(dir)
	if err != nil {
		var none T
		return none, err
	}
	return within(ctx, make(chan struct{}, 1), func() (T, error) {
		for {
			v, err := visitFile(ctx, fileName(path, a), a, f)
			if !busy(err) || !pause(ctx, retryPause) {
				return v, err
			}
		}
	})
}

func visitFile[T any](ctx context.Context, name url.URL, a access, f func(*sql.DB) (T, error)) (v T, err error) {
	db, err := open(ctx, name, a, 1)
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
	have, err := version(ctx, db)
	if err != nil {
		return err
	}
	want, err := target(embedded())
	if err != nil {
		return err
	}
	if err := compare(have, want); err != nil {
		return err
	}
	return checkSchema(ctx, db, embedded())
}
