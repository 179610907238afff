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

// KindMode chooses the changes of mode, which are of no control.AuditKind.
const KindMode = "mode"

// AuditFilter chooses what of the audit is read. The zero value means the newest.
type AuditFilter struct {
	Since time.Time // only what is at or after it; zero: all
	Pool  string    // only what concerns this pool; empty: all
	Kind  string    // KindMode, or a control.AuditKind; empty: all
	After string    // go on after this key, which came with the page before
	Limit int       // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

// AuditPage is a page of the audit: changes and entries in one order, by time and
// ID, newest first, kept apart by their form.
type AuditPage struct {
	Changes []control.ModeChange
	Entries []control.AuditEntry
	Next    string // the key of the next page; empty: this is the last
}

// AuditPage returns changes of mode and entries, newest first. ErrPageKey: After is not a
// key that came with a page.
func (s *Store) Audit(ctx context.Context, f AuditFilter) (AuditPage, error) {
	return read(ctx, s, "read the audit", func(ctx context.Context, conn *sql.Conn) (AuditPage, error) {
		return selectAuditPage(ctx, conn, f)
	})
}

// ReadAudit is AuditPage for a command: it reads a data directory, whether or not a
// service runs there. ErrNoRecord: there is no record.
func ReadAudit(ctx context.Context, dir string, f AuditFilter) (AuditPage, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	a, err := withDatabase(ctx, dir, accessReadOnlyFile, func(db *sql.DB) (AuditPage, error) {
		return retryBusy(ctx, db, func(ctx context.Context, conn *sql.Conn) (AuditPage, error) { return selectAuditPage(ctx, conn, f) })
	})
	return a, wrapErr("read the audit", err)
}

// selectAuditPage reads one more than a page from each table and keeps the newest: each
// statement is answered by one index alone, which a union would not be sure of.
func selectAuditPage(ctx context.Context, q queryer, f AuditFilter) (a AuditPage, err error) {
	if f.Kind == "" || f.Kind == KindMode {
		if a.Changes, err = selectModeChangePage(ctx, q, f.modeChangeFilter()); err != nil {
			return AuditPage{}, err
		}
	}
	if f.Kind != KindMode {
		text, args, err := f.entryStatement()
		if err != nil {
			return AuditPage{}, err
		}
		if a.Entries, err = query(ctx, q, len(auditEntryTable.columns)+1, decodeAuditEntry, text, args...); err != nil {
			return AuditPage{}, err
		}
	}
	return a.truncate(f.page()), nil
}

func (f AuditFilter) page() page { return page{since: f.Since, after: f.After, limit: f.Limit} }

func (f AuditFilter) modeChangeFilter() ModeChangeFilter {
	return ModeChangeFilter{Since: f.Since, Pool: f.Pool, After: f.After, Limit: f.Limit}
}

func (f AuditFilter) entryStatement() (text string, args []any, err error) {
	text = "SELECT " + strings.Join(auditEntryTable.columns, ", ") + ", writer FROM audit_entries WHERE at_ms >= ?"
	args = []any{f.page().sinceMS()}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	if f.Kind != "" {
		text, args = text+" AND kind = ?", append(args, f.Kind)
	}
	return f.page().statement(text, "at_ms", args...)
}

// auditKey is where something stands in the audit.
type auditKey struct {
	at time.Time
	id string
}

func (p auditKey) compare(q auditKey) int { return cmp.Or(p.at.Compare(q.at), cmp.Compare(p.id, q.id)) }

func modeChangeKey(c control.ModeChange) auditKey { return auditKey{c.At, c.ID} }
func auditEntryKey(e control.AuditEntry) auditKey { return auditKey{e.At, e.ID} }

// truncate keeps a page of what was read, and makes the key of the next one.
func (a AuditPage) truncate(p page) AuditPage {
	if len(a.Changes)+len(a.Entries) <= p.size() {
		return a
	}
	spots := make([]auditKey, 0, len(a.Changes)+len(a.Entries))
	for _, c := range a.Changes {
		spots = append(spots, modeChangeKey(c))
	}
	for _, e := range a.Entries {
		spots = append(spots, auditEntryKey(e))
	}
	slices.SortFunc(spots, func(x, y auditKey) int { return y.compare(x) })
	last := spots[p.size()-1]
	a.Changes = slices.DeleteFunc(a.Changes, func(c control.ModeChange) bool { return modeChangeKey(c).compare(last) < 0 })
	a.Entries = slices.DeleteFunc(a.Entries, func(e control.AuditEntry) bool { return auditEntryKey(e).compare(last) < 0 })
	a.Next = pageKey(last.at, last.id)
	return a
}
