package tsdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/compression"
)

const (
	// blockDuration is the span of one block. A short one keeps memory use and the replay at a start small.
	blockDuration  = 30 * time.Minute
	reopenInterval = 30 * time.Second
	maxClockSkew   = time.Minute // of the wall clock between two runs
)

// open opens the TSDB. Corrupt data is quarantined.
func (db *DB) open(now time.Time) error {
	store, err := db.openOrRepair(now)
	if err != nil {
		db.markFailed(now, err)
		db.mu.Lock()
		db.retryAt = now.Add(reopenInterval)
		db.mu.Unlock()
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return store.Close()
	}
	db.tsdb = store
	clear(db.cache)
	return nil
}

// reopen tries again to open the TSDB, every reopenInterval.
func (db *DB) reopen(now time.Time) {
	db.mu.RLock()
	due := db.tsdb == nil && !db.closed && !now.Before(db.retryAt)
	db.mu.RUnlock()
	if due {
		_ = db.open(now) // noted in Health
	}
}

// openOrRepair opens what is readable, or starts with an empty TSDB.
func (db *DB) openOrRepair(now time.Time) (*tsdb.DB, error) {
	if err := db.checkBlocks(now); err != nil {
		return nil, err
	}
	store, err := db.openOnce()
	switch {
	case err == nil:
		return db.rejectFutureSamples(now, store)
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, fmt.Errorf("%w: %s", errLocked, db.o.Dir)
	default:
		return db.recreate(now, err)
	}
}

// recreate quarantines the whole folder and starts with an empty one.
func (db *DB) recreate(now time.Time, why error) (*tsdb.DB, error) {
	if err := db.quarantine(now, why, "."); err != nil {
		return nil, fmt.Errorf("open the samples: %w", why)
	}
	store, err := db.openOnce()
	if err != nil {
		return nil, fmt.Errorf("open the samples: %w", err)
	}
	return store, nil
}

// rejectFutureSamples quarantines samples of the future, since no new ones could be written beside them.
func (db *DB) rejectFutureSamples(now time.Time, store *tsdb.DB) (*tsdb.DB, error) {
	newest := time.UnixMilli(store.Head().MaxTime())
	for _, b := range store.Blocks() {
		if t := time.UnixMilli(b.MaxTime()); store.Head().NumSeries() == 0 && t.After(newest) {
			newest = t
		}
	}
	if store.Head().NumSeries() == 0 && len(store.Blocks()) == 0 || newest.Sub(now) <= maxClockSkew {
		return store, nil
	}
	if err := store.Close(); err != nil {
		db.o.Log.Warn("closing the samples", "error", err)
	}
	return db.recreate(now, fmt.Errorf("the newest sample is of %s, and it is %s now: the clock went back",
		newest.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
}

func (db *DB) openOnce() (store *tsdb.DB, err error) {
	o := tsdb.DefaultOptions()
	o.RetentionDuration = db.o.Retention.Milliseconds()
	o.MaxBytes = maxBytes
	o.MinBlockDuration = blockDuration.Milliseconds()
	o.MaxBlockDuration = max(db.o.Retention/10, blockDuration).Milliseconds()
	o.BlockReloadInterval = disabledInterval
	o.WALCompression = compression.Snappy
	o.WALSegmentSize = 16 << 20
	o.StripeSize = 512 // of 16384: hundreds of series, not millions
	// The reader of blocks panics on some bad ones.
	err = recoverPanic(func() (err error) {
		store, err = tsdb.Open(db.o.Dir, filteredLogger(db.o.Log), nil, o, nil)
		return err
	})
	return store, err
}

// quarantine moves folders away, "." being all of them, and deletes earlier quarantines, which must not fill the disk.
func (db *DB) quarantine(now time.Time, why error, names ...string) error {
	to := fmt.Sprintf("%s.bad-%s", filepath.Clean(db.o.Dir), now.UTC().Format("20060102T150405"))
	old, _ := filepath.Glob(filepath.Clean(db.o.Dir) + ".bad-*")
	for _, o := range old {
		if o != to {
			_ = os.RemoveAll(o) // at worst it stays
		}
	}
	for _, name := range names {
		if err := db.move(name, to); err != nil {
			db.o.Log.Error("quarantine of unreadable samples failed", "error", err)
			return err
		}
	}
	db.mu.Lock()
	db.health.Quarantined = to
	db.mu.Unlock()
	db.o.Log.Error("unreadable samples quarantined, signals over them are missing", "to", to, "what",
		strings.Join(names, ", "), "error", why)
	return nil
}

func (db *DB) move(name, to string) error {
	if name != "." {
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		return os.Rename(filepath.Join(db.o.Dir, name), filepath.Join(to, name))
	}
	if _, err := os.Stat(to); err == nil { // some blocks are there already
		to = filepath.Join(to, "all")
	}
	return os.Rename(db.o.Dir, to)
}

// filteredLogger passes on the warnings of the TSDB, and lowers the rest to debug.
func filteredLogger(log *slog.Logger) *slog.Logger { return slog.New(levelFilter{log.Handler()}) }

// checkBlocks quarantines unreadable blocks. TSDB would refuse to start because of one, and leak a goroutine and a
// file.
func (db *DB) checkBlocks(now time.Time) error {
	entries, err := os.ReadDir(db.o.Dir)
	if err != nil {
		return nil // there is none yet, or opening it will say why not
	}
	lock, err := tsdbutil.NewDirLocker(db.o.Dir, "tsdb", filteredLogger(db.o.Log), nil)
	if err != nil {
		return nil // as above
	}
	switch err := lock.Lock(); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return fmt.Errorf("%w: %s", errLocked, db.o.Dir)
	case err != nil:
		return nil // as above
	}
	var bad []string
	var errs []error
	for _, e := range entries {
		if _, notBlock := ulid.ParseStrict(e.Name()); notBlock != nil || !e.IsDir() {
			continue
		}
		if err := db.checkBlock(e.Name()); err != nil {
			bad, errs = append(bad, e.Name()), append(errs, err)
		}
	}
	if len(bad) > 0 {
		_ = db.quarantine(now, errors.Join(errs...), bad...) // if that fails, opening will
	}
	return lock.Release()
}

// checkBlock says whether a block can be opened.
func (db *DB) checkBlock(name string) error {
	err := recoverPanic(func() error {
		b, err := tsdb.OpenBlock(filteredLogger(db.o.Log), filepath.Join(db.o.Dir, name), nil, nil)
		if err != nil {
			return err
		}
		return b.Close()
	})
	if err != nil {
		return fmt.Errorf("block %s: %w", name, err)
	}
	return nil
}

// disabledInterval is how often the TSDB moves full chunks from memory to a file, from where they go to a block within
// the hour: never, since on a full disk that panics in a goroutine where nothing can recover, which would end the
// process. Blocks are reloaded after each compaction anyway.
const disabledInterval = 10 * 365 * 24 * time.Hour

// recoverPanic makes an error of a panic.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

// levelFilter is a log handler that lowers everything below a warning to debug: TSDB logs every block that it writes.
type levelFilter struct{ slog.Handler }

// Enabled implements slog.Handler.
func (f levelFilter) Enabled(ctx context.Context, l slog.Level) bool {
	return f.Handler.Enabled(ctx, demoteLevel(l))
}

// Handle implements slog.Handler.
func (f levelFilter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demoteLevel(r.Level)
	return f.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (f levelFilter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelFilter{f.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (f levelFilter) WithGroup(name string) slog.Handler {
	return levelFilter{f.Handler.WithGroup(name)}
}

func demoteLevel(l slog.Level) slog.Level {
	if l < slog.LevelWarn {
		return min(l, slog.LevelDebug)
	}
	return l
}
