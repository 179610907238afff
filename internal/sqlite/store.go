package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// interruptGrace is how long an interrupted statement has to say how it ended.
	interruptGrace = 250 * time.Millisecond
	// retryPause is between attempts to begin to write.
	retryPause = 10 * time.Millisecond

	openLimit    = time.Minute      // for opening, the check of all pages included, migrations not
	migrateLimit = 30 * time.Minute // a record of 100,000 runs takes half a minute
	callLimit    = 10 * time.Second // for one call
	copyLimit    = 10 * time.Minute // for a backup
	closeLimit   = 5 * time.Second
	readerConns  = 4
)

// Options is what a Store is opened with.
type Options struct {
	Dir    string       // the data directory, made if there is none
	Log    *slog.Logger // required
	Writer string       // names this process in the record
	Listen string       // address of the admin listener, for those who find the directory in use; may be empty
}

// Store is the record, open for the service. Its methods are safe for concurrent
// use, and return within the time that their context has.
type Store struct {
	path       string // of the database, empty when ephemeral
	log        *slog.Logger
	writerName string // Options.Writer, cleaned: names this process in the record
	session    string // names this opening
	schema     *schema
	lockFile   *os.File
	writer     *sql.DB
	reader     *sql.DB
	pinConn    *sql.Conn // keeps a database in memory alive
	ctx        context.Context
	cancel     context.CancelFunc
	writeSlot  chan struct{} // held by the one who writes
	readSlots  chan struct{} // held by those who read
	background sync.WaitGroup

	closeOnce sync.Once
	closeErr  error // result of closing; set once
}

// Open opens the record in a directory, makes it or brings it up to date if need
// be, and holds the directory until Close. ErrLocked: another process holds it;
// the error says which. ErrNewer, ErrCorrupt, ErrFull and ErrDisk say what to do.
func Open(ctx context.Context, o Options) (*Store, error) {
	schema, err := programSchema()
	if err != nil {
		return nil, err
	}
	return openWith(ctx, o, schema)
}

// openWith opens the record with a schema other than the program's.
func openWith(ctx context.Context, o Options, schema *schema) (_ *Store, err error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if err := prepareDir(dir, o.Log); err != nil {
		return nil, classifyOS(err)
	}
	host, _ := os.Hostname()
	lock, err := acquireLock(ctx, dir, LockOwner{PID: os.Getpid(), Host: host, Started: time.Now().UTC().Truncate(time.Second), Listen: o.Listen})
	if err != nil {
		return nil, err
	}
	s := newStore(o, schema)
	s.lockFile, s.path = lock, filepath.Join(dir, databaseName)
	if err := s.openFile(ctx); err != nil {
		return nil, errors.Join(s.wrapErr("open "+s.path, err), s.release())
	}
	s.background.Add(1)
	go s.maintain()
	return s, nil
}

// Ephemeral returns a Store in memory: nothing on disk, no lock, and all is
// forgotten when it is closed. Dir is not used.
func Ephemeral(ctx context.Context, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	schema, err := programSchema()
	if err != nil {
		return nil, err
	}
	s := newStore(o, schema)
	if err := s.openMemory(ctx); err != nil {
		return nil, errors.Join(s.wrapErr("open a record in memory", err), s.release())
	}
	return s, nil
}

func newStore(o Options, schema *schema) *Store {
	s := &Store{
		log: o.Log, writerName: clean(o.Writer, maxName), session: rand.Text(), schema: schema,
		writeSlot: make(chan struct{}, 1), readSlots: make(chan struct{}, readerConns),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// openFile opens the database. A file that is damaged or too new is left as it is.
func (s *Store) openFile(ctx context.Context) (err error) {
	if err := prepareFile(s.path); err != nil {
		return classifyOS(err)
	}
	checkCtx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if s.writer, err = openDB(checkCtx, fileDSN(s.path, accessWrite), accessWrite, 1); err != nil {
		return err
	}
	if err := checkFile(checkCtx, s.writer, s.path); err != nil {
		return err
	}
	if err := s.migrate(ctx, func() error { return enableWAL(ctx, s.writer) }); err != nil {
		return err
	}
	readCtx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	s.reader, err = openDB(readCtx, fileDSN(s.path, accessRead), accessRead, readerConns)
	return err
}

// openMemory makes a database in memory.
func (s *Store) openMemory(ctx context.Context) (err error) {
	name := memoryDSN("headgate-" + rand.Text())
	if s.writer, err = openDB(ctx, name, accessWrite, 1); err != nil {
		return err
	}
	if s.reader, err = openDB(ctx, name, accessRead, readerConns+1); err != nil {
		return err
	}
	if s.pinConn, err = s.reader.Conn(ctx); err != nil {
		return err
	}
	return s.migrate(ctx, func() error { return nil })
}

// migrate migrates the database, after prepare, unless it is too new.
func (s *Store) migrate(ctx context.Context, prepare func() error) error {
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	have, err := schemaVersion(ctx, s.writer)
	if err != nil {
		return err
	}
	if have <= s.schema.version {
		if err := prepare(); err != nil {
			return err
		}
	}
	if have < s.schema.version {
		if have > 0 {
			s.log.Info("migrating the record", "from", have, "to", s.schema.version)
		}
		if _, err := s.schema.migrate(ctx, s.writer); err != nil {
			return fmt.Errorf("migrate it from version %d to %d: %w", have, s.schema.version, migrationErr(err))
		}
	}
	return s.schema.check(ctx, s.writer)
}

// Close closes the database and releases the directory. It waits for calls that are
// under way, for a few seconds. Later calls of it return the same.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.cancel()
		s.background.Wait()
		if err := s.drain(closeLimit); err != nil {
			// The connections are in use: closing them would wait for their users.
			// The lock stays with the process, since they may still write.
			s.closeErr = err
			return
		}
		s.closeErr = s.release()
	})
	return s.closeErr
}

// drain waits until the connections are idle, and admits no more calls.
func (s *Store) drain(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, slots := range []chan struct{}{s.writeSlot, s.readSlots} {
		for range cap(slots) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return errors.New("close the record: the disk has not answered in time")
			}
		}
	}
	return nil
}

// release closes what is open, the lock last.
func (s *Store) release() (err error) {
	s.cancel()
	if s.pinConn != nil {
		err = s.pinConn.Close()
	}
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if s.lockFile != nil {
		err = errors.Join(err, s.lockFile.Close())
	}
	if err != nil {
		return fmt.Errorf("close the record: %w", err)
	}
	return nil
}

// wrapErr wraps err as the function wrapErr does. If the error is one of the disk and the disk is full, it wraps ErrFull
// as well.
func (s *Store) wrapErr(doing string, err error) error {
	err = wrapErr(doing, err)
	if errors.Is(err, ErrDisk) && s.path != "" && diskFull(filepath.Dir(s.path)) {
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	return err
}

// runBounded runs f once a slot is free, and waits for it no longer than ctx
// lasts, and a grace: a statement obeys its context, but a disk that hangs does
// not. An abandoned f keeps its slot until it returns.
func runBounded[T any](ctx context.Context, slots chan struct{}, f func() (T, error)) (T, error) {
	var none T
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-slots }()
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(interruptGrace)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return none, ctx.Err()
	}
}

// withLimit limits a call's context to what the Store allows.
func (s *Store) withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// reader reads on a connection or in a transaction. After its first error its methods and
// the query functions do nothing and return zero values; callers check the error at the end.
type reader struct {
	ctx context.Context
	q   queryer
	err error
}

// fail sets the error unless there is one.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// read runs f on a connection that cannot write.
func read[T any](ctx context.Context, s *Store, doing string, f func(*reader) T) (T, error) {
	ctx, cancel := s.withLimit(ctx, callLimit)
	defer cancel()
	v, err := runBounded(ctx, s.readSlots, func() (T, error) { return readConn(ctx, s.reader, f) })
	return v, s.wrapCallErr(doing, err)
}

// readAll reads all rows that a statement finds.
func readAll[T any](ctx context.Context, s *Store, doing string, t table, from func(*row) T, text string, args ...any) ([]T, error) {
	return read(ctx, s, doing, func(r *reader) []T { return query(r, t, from, text, args...) })
}

// readConn runs f on a connection.
func readConn[T any](ctx context.Context, db *sql.DB, f func(*reader) T) (T, error) {
	return retryBusy(ctx, db, func(conn *sql.Conn) (T, error) {
		r := &reader{ctx: ctx, q: conn}
		if v := f(r); r.err == nil {
			return v, nil
		}
		return *new(T), r.err
	})
}

// retryBusy runs f on a connection, again while others hold the file and time is left.
func retryBusy[T any](ctx context.Context, db *sql.DB, f func(*sql.Conn) (T, error)) (T, error) {
	for {
		v, err := withConn(ctx, db, f)
		if !isBusy(err) || !sleepCtx(ctx, retryPause) {
			return v, err
		}
	}
}

func withConn[T any](ctx context.Context, db *sql.DB, f func(*sql.Conn) (T, error)) (v T, err error) {
	conn, err := limitedConn(ctx, db)
	if err != nil {
		return v, err
	}
	defer func() { _ = conn.Close() }()
	return f(conn)
}

// write runs f in one transaction, again and again while others hold the file.
func write[T any](ctx context.Context, s *Store, doing string, f func(*txWriter) T) (T, error) {
	ctx, cancel := s.withLimit(ctx, callLimit)
	defer cancel()
	v, err := runBounded(ctx, s.writeSlot, func() (T, error) {
		return inTx(ctx, s.writer, s.writerName, func(w *txWriter) T {
			w.session = s.session
			return f(w)
		})
	})
	return v, s.wrapCallErr(doing, err)
}

// writeTx is write for a function without a result.
func (s *Store) writeTx(ctx context.Context, doing string, f func(*txWriter)) error {
	_, err := write(ctx, s, doing, func(w *txWriter) struct{} { f(w); return struct{}{} })
	return err
}

// writeOne writes one row in its own transaction.
func (s *Store) writeOne(ctx context.Context, doing, text string, values ...any) error {
	return s.writeTx(ctx, doing, func(w *txWriter) { w.writeRow(text, values...) })
}

// inTx runs f in one transaction. Nothing of f stays unless all of it does;
// an error ends the transaction at once, since SQLite ends some by itself and
// would commit the statements that follow on their own.
func inTx[T any](ctx context.Context, db *sql.DB, writer string, f func(*txWriter) T) (T, error) {
	return retryBusy(ctx, db, func(conn *sql.Conn) (v T, err error) {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return v, err
		}
		w := &txWriter{reader: reader{ctx: ctx, q: tx}, tx: tx, writer: writer, stmts: make(map[string]*sql.Stmt)}
		result := f(w)
		if w.err != nil {
			_ = tx.Rollback() // SQLite may have done it already
			return v, w.err
		}
		if err := tx.Commit(); err != nil {
			return v, err
		}
		return result, nil
	})
}

// wrapCallErr explains an error of a call.
func (s *Store) wrapCallErr(doing string, err error) error {
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrConnDone) || isBusy(err)) {
		return ErrClosed
	}
	return s.wrapErr(doing, err)
}
