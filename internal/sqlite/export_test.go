package sqlite

import (
	"context"
	"slices"
	"time"

	"headgate/engine"
	"headgate/runbooks/control"
)

// ModeChanges returns the changes of modes alone.
func (s *Store) ModeChanges(ctx context.Context, q control.AuditQuery) ([]control.ModeChange, string, error) {
	q.Kind = control.KindMode
	p, err := s.Audit(ctx, q)
	return changesOf(p), p.Next, err
}

// ReadModeChanges reads the changes of modes alone in a data directory, as ReadAudit
// reads all of the audit.
func ReadModeChanges(ctx context.Context, dir string, q control.AuditQuery) ([]control.ModeChange, string, error) {
	q.Kind = control.KindMode
	p, err := ReadAudit(ctx, dir, q)
	return changesOf(p), p.Next, err
}

func changesOf(p control.AuditPage) (changes []control.ModeChange) {
	for _, r := range p.Items {
		if r.Change != nil {
			changes = append(changes, *r.Change)
		}
	}
	return changes
}

func entriesOf(p control.AuditPage) (entries []control.AuditEntry) {
	for _, r := range p.Items {
		if r.Entry != nil {
			entries = append(entries, *r.Entry)
		}
	}
	return entries
}

// rowOf is a row as SQLite would return it.
func (t table) rowOf(values ...any) *row {
	return &row{table: t.name, columns: append(slices.Clone(t.columns), "writer"), values: values}
}

// SilenceFilter chooses silences. The zero value means the newest ones.
type SilenceFilter struct {
	Active bool   // only those whose end has not been processed
	After  string // go on after this key, which came with the page before
	Limit  int    // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

// Silences returns silences, those that begin last first, and the key of the next
// page, empty on the last. control.ErrUnknownCursor: After is not such a key.
func (s *Store) Silences(ctx context.Context, f SilenceFilter) (found []engine.Silence, next string, err error) {
	l, err := read(ctx, s, "read the silences", func(r *reader) list[engine.Silence] {
		p := newPage(r, time.Time{}, f.After, f.Limit)
		condition := "WHERE from_ms >= 0"
		if f.Active {
			condition += " AND lifted = 0"
		}
		text, args := p.statement(silenceTable.selectSQL()+condition, "from_ms")
		return truncatePage(p, query(r, silenceTable, decodeSilence, text, args...),
			func(s engine.Silence) pageKey { return pageKey{s.From, s.ID} })
	})
	return l.items, l.next, err
}
