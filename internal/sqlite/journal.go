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

const selectModes = `SELECT m.pool, m.mode, m.before, m.since_ms, m.actor, m.reason, m.change_id, coalesce(c.via, '')
FROM modes m LEFT JOIN mode_changes c ON c.id = m.change_id ORDER BY m.pool LIMIT ?`

const selectRequests = `
SELECT number, at_ms, pool, action, mode, expected, drop_overdue, actor, reason FROM mode_requests
WHERE number > ? ORDER BY number LIMIT ?`

const selectProgress = `SELECT value FROM progress WHERE name = ?`

// ModeStates implements control.Journal, in the order of the pools' names.
func (s *Store) ModeStates(ctx context.Context) ([]control.ModeState, error) {
	return read(ctx, s, "read the modes", func(ctx context.Context, conn *sql.Conn) ([]control.ModeState, error) {
		out, err := query(ctx, conn, 8, decodeModeState, selectModes, maxPools+1)
		if len(out) > maxPools {
			return nil, fmt.Errorf("%w: modes has more than %d pools", ErrCorrupt, maxPools)
		}
		return out, err
	})
}

// QueuedRequests implements control.Journal. It returns at most 100.
func (s *Store) QueuedRequests(ctx context.Context, after int64) ([]control.QueuedRequest, error) {
	return read(ctx, s, "read the requests", func(ctx context.Context, conn *sql.Conn) ([]control.QueuedRequest, error) {
		done, err := lastHandledRequest(ctx, conn)
		if err != nil {
			return nil, err
		}
		return query(ctx, conn, 9, decodeRequest, selectRequests, max(after, done), maxRequests)
	})
}

// queryer is what a connection and a transaction have in common.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// lastHandledRequest returns the highest request that was dealt with.
func lastHandledRequest(ctx context.Context, q queryer) (int64, error) {
	var v any
	err := q.QueryRowContext(ctx, selectProgress, requestsProgress).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	f := rowDecoder{table: "progress"}
	n := f.number("value", v, maxNumber)
	return n, f.err
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

func decodeModeState(v []any) (control.ModeState, error) {
	f := rowDecoder{table: "modes"}
	s := control.ModeState{
		Pool: f.text("pool", v[0], maxName), Mode: f.mode("mode", v[1]), RestoreMode: f.mode("before", v[2]), Since: f.time("since_ms", v[3]),
		Actor: f.text("actor", v[4], maxName), Reason: f.text("reason", v[5], maxReason),
		ChangeID: f.text("change_id", v[6], maxName), Via: control.Via(f.word("via", v[7])),
	}
	return s, f.err
}

// decodeRequest reads a request. Anyone may have left it: one that makes no sense has
// an order without an action, so that it is passed over by its number. Only
// without a sensible number there is no going on.
func decodeRequest(v []any) (control.QueuedRequest, error) {
	n := rowDecoder{table: "mode_requests"}
	r := control.QueuedRequest{Number: n.number("number", v[0], maxNumber)}
	if n.err != nil {
		return r, n.err
	}
	f := rowDecoder{table: "mode_requests"}
	at, o := f.time("at_ms", v[1]), modeRequestFrom(&f, v[2:])
	if f.err == nil {
		r.At, r.Mode = at, o
	}
	return r, nil
}

// modeRequestFrom reads the columns of a request from pool on.
func modeRequestFrom(f *rowDecoder, v []any) control.ModeRequest {
	o := control.ModeRequest{
		Pool: f.text("pool", v[0], maxName), Action: control.ModeAction(f.text("action", v[1], maxName)),
		DropOverdue: f.number("drop_overdue", v[4], 1) == 1,
		Actor:       f.text("actor", v[5], maxName), Reason: f.text("reason", v[6], maxReason), Via: control.ViaRequest,
	}
	if !isRequestAction(o.Action) {
		f.fail("action")
	}
	if o.Action == control.SetMode {
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

// isRequestAction says whether a request may ask for an action.
func isRequestAction(a control.ModeAction) bool {
	return a == control.Rollback || a == control.Restore || a == control.SetMode
}

// modeOrEmpty writes a mode that need not be there.
func modeOrEmpty(m *admission.Mode) string {
	if m == nil {
		return ""
	}
	return m.String()
}
