package tsdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
)

// checkBlocks moves the blocks aside that cannot be read. TSDB would refuse to
// start because of one, and leave a goroutine and a file behind.
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
func (db *DB) checkBlock(name string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("block %s: panic: %v", name, v)
		}
	}()
	b, err := tsdb.OpenBlock(filteredLogger(db.o.Log), filepath.Join(db.o.Dir, name), nil, nil)
	if err != nil {
		return fmt.Errorf("block %s: %w", name, err)
	}
	return b.Close()
}
