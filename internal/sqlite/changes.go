package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"headgate/runbooks/control"
)

// ModeChangeFilter chooses changes. The zero value means the newest ones.
type ModeChangeFilter struct {
	Since time.Time // only those at or after it; zero: all
	Pool  string    // only those of this pool; empty: all
	After string    // go on after this key, which came with the page before
	Limit int       // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

const selectModeChanges = `SELECT id, at_ms, pool, action, from_mode, to_mode, before, actor, via, reason, running, queued, dropped, request, writer
FROM mode_changes WHERE at_ms >= ?`

// ModeChanges returns changes, newest first, and the key of the next page, empty on
// the last. ErrPageKey: After is not such a key.
func (s *Store) ModeChanges(ctx context.Context, f ModeChangeFilter) (changes []control.ModeChange, next string, err error) {
	changes, err = read(ctx, s, "read the audit", func(ctx context.Context, conn *sql.Conn) ([]control.ModeChange, error) {
		return selectModeChangePage(ctx, conn, f)
	})
	changes, next = f.truncate(changes)
	return changes, next, err
}

// selectModeChangePage reads one more than asked for, to know whether there are more.
func selectModeChangePage(ctx context.Context, q queryer, f ModeChangeFilter) ([]control.ModeChange, error) {
	text, args, err := f.statement()
	if err != nil {
		return nil, err
	}
	return query(ctx, q, 15, decodeModeChange, text, args...)
}

// statement is answered by one of two indexes alone, in its order.
func (f ModeChangeFilter) statement() (text string, args []any, err error) {
	text, args = selectModeChanges, []any{f.page().sinceMS()}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	return f.page().statement(text, "at_ms", args...)
}

func (f ModeChangeFilter) page() page { return page{since: f.Since, after: f.After, limit: f.Limit} }

func (f ModeChangeFilter) truncate(changes []control.ModeChange) ([]control.ModeChange, string) {
	return truncatePage(f.page(), changes, func(c control.ModeChange) string { return pageKey(c.At, c.ID) })
}

func decodeModeChange(v []any) (control.ModeChange, error) {
	f := rowDecoder{table: "mode_changes"}
	c := control.ModeChange{
		ID: f.id("id", v[0]), At: f.time("at_ms", v[1]), Pool: f.text("pool", v[2], maxName),
		Action: control.ModeAction(f.text("action", v[3], maxName)),
		From:   f.mode("from_mode", v[4]), To: f.mode("to_mode", v[5]), RestoreMode: f.mode("before", v[6]),
		Actor: f.text("actor", v[7], maxName), Via: control.Via(f.text("via", v[8], maxName)), Reason: f.text("reason", v[9], maxReason),
		Running: int(f.number("running", v[10], math.MaxInt32)), Queued: int(f.number("queued", v[11], math.MaxInt32)),
		Dropped: int(f.number("dropped", v[12], math.MaxInt32)), RequestNumber: f.number("request", v[13], maxNumber),
		Writer: f.text("writer", v[14], maxName),
	}
	if !isRequestAction(c.Action) && c.Action != control.InitialMode {
		f.fail("action")
	}
	if !slices.Contains(control.Vias(), c.Via) {
		f.fail("via")
	}
	return c, f.err
}
