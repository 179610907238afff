package tsdb

import (
	"errors"
	"time"
)

var (
	errClosed = errors.New("the samples are closed")
	errLocked = errors.New("another process has the folder of the samples")
)

// Health says whether samples are being kept.
type Health struct {
	// Err is what is wrong; nil if nothing is.
	Err error
	// Since is when it became so; zero if it has always been well.
	Since time.Time
	// Aside is the folder that what could not be read was moved to at the start;
	// empty if nothing was.
	Quarantined string
}

// Health returns how it stands with the samples.
func (db *DB) Health() Health {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.health
}

// markFailed notes and says what is wrong, once until it is something else.
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
		db.o.Log.Error("samples are not kept; signals are missing until they are", "error", err)
	}
}

// markHealthy notes and says that it is over.
func (db *DB) markHealthy(now time.Time) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || db.health.Err == nil {
		return
	}
	db.health.Err, db.health.Since = nil, now
	db.o.Log.Info("samples are kept again")
}
