package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"headgate/runbooks/control"
)

// ChangeFilter chooses changes. The zero value means the newest ones.
type ChangeFilter struct {
	Since time.Time // only those at or after it; zero: all
	Pool  string    // only those of this pool; empty: all
	After string    // go on after this key, which came with the page before
	Limit int       // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

const changeColumns = `SELECT id, at_ms, pool, action, from_mode, to_mode, before, actor, via, reason, running, queued, dropped, request, writer
FROM mode_changes WHERE at_ms >= ?`

// Changes returns changes, newest first, and the key of the next page, empty on
// the last. ErrKey: After is not such a key.
func (s *Store) Changes(ctx context.Context, f ChangeFilter) (changes []control.Change, next string, err error) {
	changes, err = read(ctx, s, "read the audit", func(ctx context.Context, conn *sql.Conn) ([]control.Change, error) {
		return changesFrom(ctx, conn, f)
	})
	changes, next = f.cut(changes)
	return changes, next, err
}

// changesFrom reads one more than asked for, to know whether there are more.
func changesFrom(ctx context.Context, q queryer, f ChangeFilter) ([]control.Change, error) {
	text, args, err := f.statement()
	if err != nil {
		return nil, err
	}
	return query(ctx, q, 15, change, text, args...)
}

// statement is answered by one of two indexes alone, in its order.
func (f ChangeFilter) statement() (text string, args []any, err error) {
	text, args = changeColumns, []any{f.page().sinceMS()}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	return f.page().statement(text, "at_ms", args...)
}

func (f ChangeFilter) page() page { return page{since: f.Since, after: f.After, limit: f.Limit} }

func (f ChangeFilter) cut(changes []control.Change) ([]control.Change, string) {
	return cut(f.page(), changes, func(c control.Change) string { return pageKey(c.At, c.ID) })
}

func change(v []any) (control.Change, error) {
	f := fields{table: "mode_changes"}
	c := control.Change{
		ID: f.id("id", v[0]), At: f.time("at_ms", v[1]), Pool: f.text("pool", v[2], maxName),
		Action: control.Action(f.text("action", v[3], maxName)),
		From:   f.mode("from_mode", v[4]), To: f.mode("to_mode", v[5]), Before: f.mode("before", v[6]),
		Actor: f.text("actor", v[7], maxName), Via: control.Via(f.text("via", v[8], maxName)), Reason: f.text("reason", v[9], maxReason),
		Running: int(f.number("running", v[10], math.MaxInt32)), Queued: int(f.number("queued", v[11], math.MaxInt32)),
		Dropped: int(f.number("dropped", v[12], math.MaxInt32)), Request: f.number("request", v[13], maxNumber),
		Writer: f.text("writer", v[14], maxName),
	}
	if !requestable(c.Action) && c.Action != control.First {
		f.fail("action")
	}
	if !slices.Contains(control.Vias(), c.Via) {
		f.fail("via")
	}
	return c, f.bad
}
