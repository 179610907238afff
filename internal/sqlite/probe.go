package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// probeLockWait is how long LockExclusive waits for a write in progress.
const probeLockWait = 2 * time.Second

// ProbeWrite tries to take the write lock of the record in dir, as another process
// would, and changes nothing. An error says that the record cannot be written now.
func ProbeWrite(ctx context.Context, dir string) error {
	unlock, err := lockRecord(ctx, dir, "immediate", 0)
	if err != nil {
		return err
	}
	return unlock(ctx)
}

// LockExclusive keeps all other connections from writing to the record in dir, as a
// backup tool or an open shell does, until unlock is called. It is for drills.
func LockExclusive(ctx context.Context, dir string) (unlock func(context.Context) error, err error) {
	// The lock must outlive the call that takes it.
	return lockRecord(context.WithoutCancel(ctx), dir, "exclusive", probeLockWait)
}

// lockRecord begins a transaction that holds a lock of the given kind.
func lockRecord(ctx context.Context, dir, kind string, wait time.Duration) (unlock func(context.Context) error, err error) {
	path, err := filepath.Abs(filepath.Join(dir, databaseName))
	if err != nil {
		return nil, fmt.Errorf("find the record: %w", err)
	}
	name := fileDSN(path, accessWrite)
	q := name.Query()
	q.Set("_txlock", kind)
	q.Set("_pragma", fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()))
	name.RawQuery = q.Encode()
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("open the record: %w", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, errors.Join(wrapErr("lock the record", err), db.Close())
	}
	return func(context.Context) error { return errors.Join(tx.Rollback(), db.Close()) }, nil
}
