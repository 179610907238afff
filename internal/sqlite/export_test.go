package sqlite

import (
	"context"
	"database/sql"
	"slices"

	"headgate/runbooks/control"
)

// ReadModeChanges reads the changes of modes alone in a data directory, as ReadAudit
// reads all of the audit.
func ReadModeChanges(ctx context.Context, dir string, f ModeChangeFilter) (changes []control.ModeChange, next string, err error) {
	changes, err = readFromDir(ctx, dir, "read the audit", func(ctx context.Context, conn *sql.Conn) ([]control.ModeChange, error) {
		return selectModeChanges(ctx, conn, f)
	})
	changes, next = f.truncate(changes)
	return changes, next, err
}

// rowOf is a row as SQLite would return it.
func (t table) rowOf(values ...any) *row {
	return &row{table: t.name, columns: append(slices.Clone(t.columns), "writer"), values: values}
}
