package sqlite

import (
	"context"
	"slices"

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
