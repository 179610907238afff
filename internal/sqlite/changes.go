package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/runbooks"
)

// Bounds of a page of the audit.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
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
func (s *Store) Changes(ctx context.Context, f ChangeFilter) (changes []runbooks.Change, next string, err error) {
	changes, err = read(ctx, s, "read the audit", func(ctx context.Context, conn *sql.Conn) ([]runbooks.Change, error) {
		return changesFrom(ctx, conn, f)
	})
	changes, next = f.cut(changes)
	return changes, next, err
}

// changesFrom reads one more than asked for, to know whether there are more.
func changesFrom(ctx context.Context, q queryer, f ChangeFilter) ([]runbooks.Change, error) {
	text, args, err := f.statement()
	if err != nil {
		return nil, err
	}
	return query(ctx, q, 15, change, text, args...)
}

// statement is answered by one of two indexes alone, in its order.
func (f ChangeFilter) statement() (text string, args []any, err error) {
	text, args = changeColumns, []any{f.since()}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	if f.After != "" {
		at, id, err := f.after()
		if err != nil {
			return "", nil, err
		}
		text, args = text+" AND (at_ms, id) < (?, ?)", append(args, at, id)
	}
	return text + " ORDER BY at_ms DESC, id DESC LIMIT ?", append(args, f.limit()+1), nil
}

func (f ChangeFilter) limit() int {
	if f.Limit <= 0 {
		return DefaultLimit
	}
	return min(f.Limit, MaxLimit)
}

// since rounds up: a change has no part of a millisecond.
func (f ChangeFilter) since() int64 {
	if f.Since.IsZero() {
		return math.MinInt64
	}
	ms := f.Since.UnixMilli()
	if f.Since.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// cut takes the one too many away and makes the key of the next page.
func (f ChangeFilter) cut(changes []runbooks.Change) ([]runbooks.Change, string) {
	if len(changes) <= f.limit() {
		return changes, ""
	}
	changes = changes[:f.limit()]
	last := changes[len(changes)-1]
	return changes, strconv.FormatInt(last.At.UnixMilli(), 10) + "." + last.ID
}

// after reads the key: time and ID of the last change of the page before.
func (f ChangeFilter) after() (at int64, id string, err error) {
	ms, id, ok := strings.Cut(f.After, ".")
	at, err = strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || at < 0 || strconv.FormatInt(at, 10) != ms || !validID(id) {
		return 0, "", ErrKey
	}
	return at, id, nil
}

func change(v []any) (runbooks.Change, error) {
	f := fields{table: "mode_changes"}
	c := runbooks.Change{
		ID: f.id("id", v[0]), At: f.time("at_ms", v[1]), Pool: f.text("pool", v[2], maxName),
		Action: runbooks.Action(f.text("action", v[3], maxName)),
		From:   f.mode("from_mode", v[4]), To: f.mode("to_mode", v[5]), Before: f.mode("before", v[6]),
		Actor: f.text("actor", v[7], maxName), Via: runbooks.Via(f.text("via", v[8], maxName)), Reason: f.text("reason", v[9], maxReason),
		Running: int(f.number("running", v[10], math.MaxInt32)), Queued: int(f.number("queued", v[11], math.MaxInt32)),
		Dropped: int(f.number("dropped", v[12], math.MaxInt32)), Request: f.number("request", v[13], maxNumber),
		Writer: f.text("writer", v[14], maxName),
	}
	if !requestable(c.Action) && c.Action != runbooks.First {
		f.fail("action")
	}
	if !slices.Contains(runbooks.Vias(), c.Via) {
		f.fail("via")
	}
	return c, f.bad
}
