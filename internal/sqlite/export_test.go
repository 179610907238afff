package sqlite

import (
	"context"
	"database/sql"

	"headgate/runbooks/control"
)

// ReadModeChanges reads the changes of modes alone in a data directory, as ReadAudit
// reads all of the audit.
func ReadModeChanges(ctx context.Context, dir string, f ModeChangeFilter) (changes []control.ModeChange, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	changes, err = withDatabase(ctx, dir, accessReadOnlyFile, func(db *sql.DB) ([]control.ModeChange, error) {
		return retryBusy(ctx, db, func(ctx context.Context, conn *sql.Conn) ([]control.ModeChange, error) {
			return selectModeChangePage(ctx, conn, f)
		})
	})
	changes, next = f.truncate(changes)
	return changes, next, wrapErr("read the audit", err)
}
