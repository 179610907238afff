package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

const (
	maxPools    = 10_000 // pools ever seen
	maxRequests = 100    // read in one go
)

const readModes = `SELECT m.pool, m.mode, m.before, m.since_ms, m.actor, m.reason, m.change_id, coalesce(c.via, '')
FROM modes m LEFT JOIN mode_changes c ON c.id = m.change_id ORDER BY m.pool LIMIT ?`

const readRequests = `
SELECT number, at_ms, pool, action, mode, expected, drop_overdue, actor, reason FROM mode_requests
WHERE number > ? ORDER BY number LIMIT ?`

const readProgress = `SELECT value FROM progress WHERE name = ?`

// Standings implements control.Journal, in the order of the pools' names.
func (s *Store) Standings(ctx context.Context) ([]control.Standing, error) {
	return read(ctx, s, "read the modes", func(ctx context.Context, conn *sql.Conn) ([]control.Standing, error) {
		out, err := query(ctx, conn, 8, standing, readModes, maxPools+1)
		if len(out) > maxPools {
			return nil, fmt.Errorf("%w: modes has more than %d pools", ErrCorrupt, maxPools)
		}
		return out, err
	})
}

// Requests implements control.Journal. It returns at most 100.
func (s *Store) Requests(ctx context.Context, after int64) ([]control.Request, error) {
	return read(ctx, s, "read the requests", func(ctx context.Context, conn *sql.Conn) ([]control.Request, error) {
		done, err := dealtWith(ctx, conn)
		if err != nil {
			return nil, err
		}
		return query(ctx, conn, 9, request, readRequests, max(after, done), maxRequests)
	})
}

// queryer is what a connection and a transaction have in common.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// dealtWith returns the highest request that was dealt with.
func dealtWith(ctx context.Context, q queryer) (int64, error) {
	var v any
	err := q.QueryRowContext(ctx, readProgress, requestsDone).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	f := fields{table: "progress"}
	n := f.number("value", v, maxNumber)
	return n, f.bad
}

// query makes a T of each row. The rows are closed when it returns: an open one
// would keep the -wal file growing.
func query[T any](ctx context.Context, q queryer, columns int, from func([]any) (T, error), text string, args ...any) (_ []T, err error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []T
	values, targets := make([]any, columns), make([]any, columns)
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		v, err := from(values)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

func standing(v []any) (control.Standing, error) {
	f := fields{table: "modes"}
	s := control.Standing{
		Pool: f.text("pool", v[0], maxName), Mode: f.mode("mode", v[1]), Before: f.mode("before", v[2]), Since: f.time("since_ms", v[3]),
		By: f.text("actor", v[4], maxName), Reason: f.text("reason", v[5], maxReason),
		Change: f.text("change_id", v[6], maxName), Via: control.Via(f.word("via", v[7])),
	}
	return s, f.bad
}

// request reads a request. Anyone may have left it: one that makes no sense has
// an order without an action, so that it is passed over by its number. Only
// without a sensible number there is no going on.
func request(v []any) (control.Request, error) {
	n := fields{table: "mode_requests"}
	r := control.Request{Number: n.number("number", v[0], maxNumber)}
	if n.bad != nil {
		return r, n.bad
	}
	f := fields{table: "mode_requests"}
	at, o := f.time("at_ms", v[1]), order(&f, v[2:])
	if f.bad == nil {
		r.At, r.Order = at, o
	}
	return r, nil
}

// order reads the columns of a request from pool on.
func order(f *fields, v []any) control.Order {
	o := control.Order{
		Pool: f.text("pool", v[0], maxName), Action: control.Action(f.text("action", v[1], maxName)),
		DropOverdue: f.number("drop_overdue", v[4], 1) == 1,
		Actor:       f.text("actor", v[5], maxName), Reason: f.text("reason", v[6], maxReason), Via: control.ViaRequest,
	}
	if !requestable(o.Action) {
		f.fail("action")
	}
	if o.Action == control.ToMode {
		o.Mode = f.mode("mode", v[2])
	} else if f.text("mode", v[2], maxName) != "" {
		f.fail("mode")
	}
	if f.text("expected", v[3], maxName) != "" {
		m := f.mode("expected", v[3])
		o.Expected = &m
	}
	return o
}

// requestable says whether a request may ask for an action.
func requestable(a control.Action) bool {
	return a == control.Rollback || a == control.Restore || a == control.ToMode
}

// modeOrEmpty writes a mode that need not be there.
func modeOrEmpty(m *admission.Mode) string {
	if m == nil {
		return ""
	}
	return m.String()
}
