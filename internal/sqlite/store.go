package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	openLimit  = time.Minute      // for opening, the check of all pages included
	callLimit  = 10 * time.Second // for one call
	copyLimit  = 10 * time.Minute // for a backup
	closeLimit = 5 * time.Second
	readers    = 4
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
	path    string // of the database, empty when ephemeral
	log     *slog.Logger
	own     string // the writer's name
	run     string // names this opening
	files   fs.FS  // the migrations
	lock    *os.File
	writer  *sql.DB
	reader  *sql.DB
	keeper  *sql.Conn // keeps a database in memory alive
	life    context.Context
	end     context.CancelFunc
	writes  chan struct{} // held by the one who writes
	reads   chan struct{} // held by those who read
	tending sync.WaitGroup

	closing sync.Once
	closed  error // what closing came to; set once
}

// Open opens the record in a directory, makes it or brings it up to date if need
// be, and holds the directory until Close. ErrLocked: another process holds it;
// the error says which. ErrNewer, ErrCorrupt, ErrFull and ErrDisk say what to do.
func Open(ctx context.Context, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	return openWith(ctx, o, embedded())
}

// openWith opens the record with other migrations than the program's own.
func openWith(ctx context.Context, o Options, files fs.FS) (_ *Store, err error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if err := prepareDir(dir, o.Log); err != nil {
		return nil, classifyOS(err)
	}
	host, _ := os.Hostname()
	lock, err := takeLock(ctx, dir, Holder{PID: os.Getpid(), Host: host, Started: time.Now().UTC().Truncate(time.Second), Listen: o.Listen})
	if err != nil {
		return nil, err
	}
	s := newStore(o, files)
	s.lock, s.path = lock, filepath.Join(dir, databaseName)
	if err := s.openFile(ctx); err != nil {
		return nil, errors.Join(s.explain("open "+s.path, err), s.release())
	}
	s.tending.Add(1)
	go s.tend()
	return s, nil
}

// Ephemeral returns a Store in memory: nothing on disk, no lock, and all is
// forgotten when it is closed. Dir is not used.
func Ephemeral(ctx context.Context, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	s := newStore(o, embedded())
	if err := s.openMemory(ctx); err != nil {
		return nil, errors.Join(s.explain("open a record in memory", err), s.release())
	}
	return s, nil
}

func newStore(o Options, files fs.FS) *Store {
	s := &Store{
		log: o.Log, own: clean(o.Writer, maxName), run: randomName(), files: files,
		writes: make(chan struct{}, 1), reads: make(chan struct{}, readers),
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// openFile opens the database. A file that is damaged or too new is left as it is.
func (s *Store) openFile(ctx context.Context) (err error) {
	if err := prepareFile(s.path); err != nil {
		return classifyOS(err)
	}
	if s.writer, err = open(ctx, fileName(s.path, writing), writing, 1); err != nil {
		return err
	}
	if err := checkFile(ctx, s.writer, s.path); err != nil {
		return err
	}
	if err := s.bringUp(ctx, func() error { return useLog(ctx, s.writer) }); err != nil {
		return err
	}
	s.reader, err = open(ctx, fileName(s.path, reading), reading, readers)
	return err
}

// openMemory makes a database in memory.
func (s *Store) openMemory(ctx context.Context) (err error) {
	name := memoryName("headgate-" + randomName())
	if s.writer, err = open(ctx, name, writing, 1); err != nil {
		return err
	}
	if s.reader, err = open(ctx, name, reading, readers+1); err != nil {
		return err
	}
	if s.keeper, err = s.reader.Conn(ctx); err != nil {
		return err
	}
	return s.bringUp(ctx, func() error { return nil })
}

// bringUp migrates the database, after prepare, unless it is too new.
func (s *Store) bringUp(ctx context.Context, prepare func() error) error {
	have, err := version(ctx, s.writer)
	if err != nil {
		return err
	}
	want, err := target(s.files)
	if err != nil {
		return err
	}
	if have > want {
		return compare(have, want)
	}
	if err := prepare(); err != nil {
		return err
	}
	if err := migrate(ctx, s.writer, s.files); err != nil {
		return fmt.Errorf("bring it from version %d to %d: %w", have, want, unmigrated(err))
	}
	return checkSchema(ctx, s.writer, s.files)
}

// Close lets go of the record and of the directory. It waits for calls that are
// under way, for a few seconds. Later calls of it return the same.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.end()
		s.tending.Wait()
		if err := s.drain(closeLimit); err != nil {
			// The connections are in use: closing them would wait for their users.
			// The lock stays with the process, since they may still write.
			s.closed = err
			return
		}
		s.closed = s.release()
	})
	return s.closed
}

// drain waits until nobody uses the connections, and keeps everybody out.
func (s *Store) drain(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, slots := range []chan struct{}{s.writes, s.reads} {
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
	s.end()
	if s.keeper != nil {
		err = s.keeper.Close()
	}
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("close the record: %w", err)
	}
	return nil
}

// explain is the package's explain, for one who can look at the disk.
func (s *Store) explain(doing string, err error) error {
	err = explain(doing, err)
	if errors.Is(err, ErrDisk) && s.path != "" && noRoom(filepath.Dir(s.path)) {
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	return err
}
