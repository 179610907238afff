package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"headgate/runbooks/control"
)

// KindMode chooses the changes of mode, which are of no control.Kind.
const KindMode = "mode"

// AuditFilter chooses what of the audit is read. The zero value means the newest.
type AuditFilter struct {
	Since time.Time // only what is at or after it; zero: all
	Pool  string    // only what concerns this pool; empty: all
	Kind  string    // KindMode, or a control.Kind; empty: all
	After string    // go on after this key, which came with the page before
	Limit int       // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

// Audit is a page of the audit: changes and entries in one order, by time and
// ID, newest first, kept apart by their form.
type Audit struct {
	Changes []control.Change
	Entries []control.Entry
	Next    string // the key of the next page; empty: this is the last
}

// Audit returns changes of mode and entries, newest first. ErrKey: After is not a
// key that came with a page.
func (s *Store) Audit(ctx context.Context, f AuditFilter) (Audit, error) {
	return read(ctx, s, "read the audit", func(ctx context.Context, conn *sql.Conn) (Audit, error) {
		return auditFrom(ctx, conn, f)
	})
}

// ReadAudit is Audit for a command: it reads a data directory, whether or not a
// service runs there. ErrNone: there is no record.
func ReadAudit(ctx context.Context, dir string, f AuditFilter) (Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	a, err := visit(ctx, dir, readOnly, func(db *sql.DB) (Audit, error) {
		return insist(ctx, db, func(ctx context.Context, conn *sql.Conn) (Audit, error) { return auditFrom(ctx, conn, f) })
	})
	return a, explain("read the audit", err)
}

// auditFrom reads one more than a page from each table and keeps the newest: each
// statement is answered by one index alone, which a union would not be sure of.
func auditFrom(ctx context.Context, q queryer, f AuditFilter) (a Audit, err error) {
	if f.Kind == "" || f.Kind == KindMode {
		if a.Changes, err = changesFrom(ctx, q, f.changes()); err != nil {
			return Audit{}, err
		}
	}
	if f.Kind != KindMode {
		text, args, err := f.entries()
		if err != nil {
			return Audit{}, err
		}
		if a.Entries, err = query(ctx, q, len(entryTable.columns)+1, entryRow, text, args...); err != nil {
			return Audit{}, err
		}
	}
	return a.cut(f.page()), nil
}

func (f AuditFilter) page() page { return page{since: f.Since, after: f.After, limit: f.Limit} }

func (f AuditFilter) changes() ChangeFilter {
	return ChangeFilter{Since: f.Since, Pool: f.Pool, After: f.After, Limit: f.Limit}
}

func (f AuditFilter) entries() (text string, args []any, err error) {
	text = "SELECT " + strings.Join(entryTable.columns, ", ") + ", writer FROM audit_entries WHERE at_ms >= ?"
	args = []any{f.page().sinceMS()}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	if f.Kind != "" {
		text, args = text+" AND kind = ?", append(args, f.Kind)
	}
	return f.page().statement(text, "at_ms", args...)
}

// spot is where something stands in the audit.
type spot struct {
	at time.Time
	id string
}

func (p spot) compare(q spot) int { return cmp.Or(p.at.Compare(q.at), cmp.Compare(p.id, q.id)) }

func changeSpot(c control.Change) spot { return spot{c.At, c.ID} }
func entrySpot(e control.Entry) spot   { return spot{e.At, e.ID} }

// cut keeps a page of what was read, and makes the key of the next one.
func (a Audit) cut(p page) Audit {
	if len(a.Changes)+len(a.Entries) <= p.size() {
		return a
	}
	spots := make([]spot, 0, len(a.Changes)+len(a.Entries))
	for _, c := range a.Changes {
		spots = append(spots, changeSpot(c))
	}
	for _, e := range a.Entries {
		spots = append(spots, entrySpot(e))
	}
	slices.SortFunc(spots, func(x, y spot) int { return y.compare(x) })
	last := spots[p.size()-1]
	a.Changes = slices.DeleteFunc(a.Changes, func(c control.Change) bool { return changeSpot(c).compare(last) < 0 })
	a.Entries = slices.DeleteFunc(a.Entries, func(e control.Entry) bool { return entrySpot(e).compare(last) < 0 })
	a.Next = pageKey(last.at, last.id)
	return a
}
