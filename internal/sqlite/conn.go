package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

const (
	// busyTimeout is how long SQLite itself waits for a lock, in milliseconds.
	// It is short, since attempts are repeated for as long as there is time.
	busyTimeout = "250"
	// journalLimit is what a checkpoint leaves of the -wal file, in bytes.
	journalLimit = "4194304"
	// probeLockWait is how long LockExclusive waits for a write in progress.
	probeLockWait = 2 * time.Second
	// maxLength bounds a value or row that is read or written, in bytes.
	maxLength = 64 << 10
)

// accessMode is what connections are for.
type accessMode int

const (
	accessRead         accessMode = iota // by the service
	accessWrite                          // by the service, or by a command that leaves a request
	accessReadOnlyFile                   // by a command that has no business with writing
)

// pragmas returns what is set on each connection.
func pragmas(a accessMode) map[string]string {
	p := map[string]string{
		"busy_timeout":   busyTimeout,
		"foreign_keys":   "1",
		"synchronous":    "2", // FULL
		"trusted_schema": "0", // a hostile file's views and triggers get no functions with side effects
		"mmap_size":      "0", // a damaged file must not become a SIGBUS
		"query_only":     "1",
	}
	if a == accessWrite {
		p["query_only"] = "0"
		p["journal_size_limit"] = journalLimit
	}
	return p
}

// fileDSN returns the name by which SQLite opens a file.
func fileDSN(path string, a accessMode) url.URL {
	mode := "rw" // never rwc: a record is made in one place only
	if a == accessReadOnlyFile {
		mode = "ro"
	}
	return url.URL{Scheme: "file", Path: path, RawQuery: "mode=" + mode}
}

// memoryDSN returns the name of a database in memory that the connections of
// this process share for as long as one of them is open.
func memoryDSN(name string) url.URL {
	return url.URL{Scheme: "file", Path: "/" + name, RawQuery: "vfs=memdb"}
}

// openDB prepares connections and checks the settings of the first. A
// name in _pragma that SQLite does not know is ignored by it silently, so
// everything is read back.
func openDB(ctx context.Context, name url.URL, a accessMode, connections int) (*sql.DB, error) {
	q := name.Query()
	q.Set("_txlock", "immediate")
	q.Set("_defensive", "true")
	q.Set("_dqs", "false")
	for key, value := range pragmas(a) {
		if key != "query_only" || value == "1" {
			q.Add("_pragma", key+"("+value+")")
		}
	}
	name.RawQuery = q.Encode()
	connector, err := driver.NewConnector(name.String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if err := checkPragmas(ctx, db, a); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkPragmas compares the settings of a connection with what was asked for.
func checkPragmas(ctx context.Context, db *sql.DB, a accessMode) error {
	want := pragmas(a)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		var got string
		err := db.QueryRowContext(ctx, "PRAGMA "+name).Scan(&got)
		if errors.Is(err, sql.ErrNoRows) && name == "mmap_size" { // it does not apply to memory
			continue
		}
		if err != nil {
			return err
		}
		if got != want[name] {
			return fmt.Errorf("SQLite setting %s must be %s, is %s", name, want[name], got)
		}
	}
	return nil
}

// enableWAL sets the write-ahead log. It is kept in the file, so once is enough.
func enableWAL(ctx context.Context, db *sql.DB) error {
	var got string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&got); err != nil {
		return err
	}
	if !strings.EqualFold(got, "wal") {
		return fmt.Errorf("the record must have a write-ahead log, SQLite keeps to %q; is the file system a network's?", got)
	}
	return nil
}

// limitedConn takes a connection on which no value can be longer than maxLength.
func limitedConn(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := driver.Limit(conn, codes.SQLITE_LIMIT_LENGTH, maxLength); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// readFromDir reads a data directory for a command, whether or not a service runs there.
// ErrNoRecord: there is no record.
func readFromDir[T any](ctx context.Context, dir, doing string, f func(*reader) T) (T, error) {
	return withDatabase(ctx, dir, doing, accessReadOnlyFile, func(ctx context.Context, db *sql.DB) (T, error) {
		return readConn(ctx, db, f)
	})
}

// withDatabase opens the database of a data directory for a moment, without the lock. It
// is not migrated: a service may be running on it.
func withDatabase[T any](
	ctx context.Context, dir, doing string, a accessMode, f func(context.Context, *sql.DB) (T, error),
) (v T, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	path, err := databasePath(dir)
	if err != nil {
		return v, wrapErr(doing, err)
	}
	v, err = runBounded(ctx, make(chan struct{}, 1), func() (T, error) {
		for {
			v, err := withDatabaseFile(ctx, path, a, f)
			if !isBusy(err) || !sleepCtx(ctx, retryPause) {
				return v, err
			}
		}
	})
	return v, wrapErr(doing, err)
}

func withDatabaseFile[T any](
	ctx context.Context, path string, a accessMode, f func(context.Context, *sql.DB) (T, error),
) (v T, err error) {
	schema, err := programSchema()
	if err != nil {
		return v, err
	}
	db, err := openDB(ctx, fileDSN(path, a), a, 1)
	if err != nil {
		return v, err
	}
	defer func() { _ = db.Close() }() // what f has committed stands, however closing ends
	if err := schema.check(ctx, db); err != nil {
		return v, err
	}
	return f(ctx, db)
}

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
