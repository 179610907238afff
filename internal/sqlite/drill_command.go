package sqlite

import (
	"context"
	"database/sql"

	"headgate/runbooks/drill"
)

// ReadRuns is Drills.Runs for a command: it reads a data directory, whether or not
// a service runs there. ErrNoRecord: there is no record.
func ReadRuns(ctx context.Context, dir string, q drill.Query) (runs []drill.Run, next string, err error) {
	runs, err = readFromDir(ctx, dir, "read the runs of drills", func(ctx context.Context, conn *sql.Conn) ([]drill.Run, error) {
		var places []runKey
		var err error
		if places, next, err = selectRunKeys(ctx, conn, q); err != nil {
			return nil, err
		}
		return loadRuns(ctx, conn, places)
	})
	if err != nil {
		return nil, "", err
	}
	return runs, next, nil
}

// ReadRun is Drills.Run for a command.
func ReadRun(ctx context.Context, dir, id string) (drill.Run, error) {
	if !validID(id) {
		return drill.Run{}, drill.ErrNoRun
	}
	return readFromDir(ctx, dir, "read a run of a drill", func(ctx context.Context, conn *sql.Conn) (drill.Run, error) {
		row, err := loadRun(ctx, conn, id)
		return row.Run, err
	})
}

func readFromDir[T any](ctx context.Context, dir, what string, f func(context.Context, *sql.Conn) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	v, err := withDatabase(ctx, dir, accessReadOnlyFile, func(db *sql.DB) (T, error) { return retryBusy(ctx, db, f) })
	return v, wrapErr(what, err)
}
