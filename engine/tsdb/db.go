package tsdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// DB keeps samples and answers queries. Its methods may be called from any goroutine, except that only one may add
// samples (by Run, Collect or Append).
type DB struct {
	o       Options
	temp    bool // the folder goes with Close
	engine  *promql.Engine
	parser  parser.Parser
	metrics *metrics

	appendMu           sync.Mutex // held while samples are written
	cache              map[uint64]*series
	generation         uint64
	lastRecordedMinute int64 // of the latest recorded point, since 1970

	mu      sync.RWMutex
	tsdb    *tsdb.DB // nil while it cannot be opened
	closed  bool
	health  Health
	retryAt time.Time // when to try to open it again
}

// Open opens the samples in a folder, and repairs what it can. It fails on impossible options, and if another process
// uses the folder. A failing disk is no error: signals are missing until a later attempt to open succeeds.
func Open(o Options) (*DB, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	db := &DB{o: o, cache: make(map[uint64]*series), parser: parser.NewParser(parser.Options{})}
	if o.Dir == "" {
		if db.o.Dir, err = os.MkdirTemp("", "headgate-samples-"); err != nil {
			return nil, fmt.Errorf("make a temporary folder for samples: %w", err)
		}
		db.temp = true
	}
	db.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: querySamples, Timeout: queryTimeout, LookbackDelta: o.lookback(),
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: db.parser,
	})
	if db.metrics, err = newMetrics(o.Registerer, db); err != nil {
		return nil, errors.Join(err, db.removeTemp())
	}
	if err := db.open(o.Clock()); errors.Is(err, errLocked) {
		return nil, errors.Join(err, db.removeTemp())
	}
	return db, nil
}

// Run collects at once and then at every interval until ctx is done.
func (db *DB) Run(ctx context.Context) {
	tick := time.NewTicker(db.o.Interval)
	defer tick.Stop()
	for {
		db.Collect(ctx, db.o.Clock())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close writes what is pending and closes the samples. Queries fail from then on. Closing again does nothing.
func (db *DB) Close() error {
	db.appendMu.Lock()
	defer db.appendMu.Unlock()
	errFlush := db.flushRecorded(db.o.Clock())
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	db.health = Health{Since: db.o.Clock(), Err: errClosed}
	err := errFlush
	if db.tsdb != nil {
		err = errors.Join(err, recoverPanic(db.tsdb.Close)) // as a full disk makes it
		db.tsdb = nil
	}
	return errors.Join(err, db.engine.Close(), db.removeTemp())
}

func (db *DB) removeTemp() error {
	if !db.temp {
		return nil
	}
	return os.RemoveAll(db.o.Dir)
}

// store returns the TSDB, nil if it is not open.
func (db *DB) store() *tsdb.DB {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.tsdb
}

var (
	errClosed = errors.New("the samples are closed")
	errLocked = errors.New("another process uses the folder of the samples")
)

// Health says whether samples are being kept.
type Health struct {
	// Err is why samples are not kept; nil if they are.
	Err error
	// Since is when that changed; zero if samples have always been kept.
	Since time.Time
	// Quarantined is the folder that unreadable samples were moved to at the start; empty if there were none.
	Quarantined string
}

// Health says whether samples are being kept.
func (db *DB) Health() Health {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.health
}

// markFailed records and logs a failure, once until it changes.
func (db *DB) markFailed(now time.Time, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return
	}
	before := db.health.Err
	if before == nil {
		db.health.Since = now
	}
	db.health.Err = err
	if before == nil || before.Error() != err.Error() {
		db.o.Log.Error("samples cannot be written, signals are missing", "error", err)
	}
}

// markHealthy records and logs the end of a failure.
func (db *DB) markHealthy(now time.Time) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || db.health.Err == nil {
		return
	}
	db.health.Err, db.health.Since = nil, now
	db.o.Log.Info("samples are written again")
}
