package sqlite

import (
	"context"
	"database/sql"

	"headgate/runbooks/control"
)

// ReadChanges reads the changes of modes alone in a data directory, as ReadAudit
// reads all of the audit.
func ReadChanges(ctx context.Context, dir string, f ChangeFilter) (changes []control.Change, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	changes, err = visit(ctx, dir, readOnly, func(db *sql.DB) ([]control.Change, error) {
		return insist(ctx, db, func(ctx context.Context, conn *sql.Conn) ([]control.Change, error) {
			return changesFrom(ctx, conn, f)
		})
	})
	changes, next = f.cut(changes)
	return changes, next, explain("read the audit", err)
}
