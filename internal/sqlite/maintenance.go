package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// checkpointEvery is how often the -wal file is emptied. SQLite moves its content
// into the database by itself, but lets the file keep its size.
const checkpointEvery = 5 * time.Minute

// maintain empties the -wal file now and then until the Store is closed.
func (s *Store) maintain() {
	defer s.background.Done()
	for sleepCtx(s.ctx, checkpointEvery) {
		if err := s.checkpoint(s.ctx); err != nil && s.ctx.Err() == nil {
			s.log.Warn("the write-ahead log of the record was not emptied; trying again later", "error", err)
		}
	}
}

// checkpoint empties the -wal file. One who reads meanwhile may keep it from
// that, which is no error.
func (s *Store) checkpoint(ctx context.Context) error {
	ctx, cancel := s.withLimit(ctx, callLimit)
	defer cancel()
	_, err := runBounded(ctx, s.writeSlot, func() (struct{}, error) {
		var blocked, pages, moved int
		return struct{}{}, s.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &pages, &moved)
	})
	if isBusy(err) {
		return nil
	}
	return s.wrapCallErr("empty the write-ahead log", err)
}

// migrationErr says what it means when a migration fails on what it finds, rather
// than on the disk: that the file is not what its version says.
func migrationErr(err error) error {
	var e *driver.Error
	if errors.As(err, &e) && (e.Code()&0xff == codes.SQLITE_ERROR || e.Code()&0xff == codes.SQLITE_CONSTRAINT) {
		return fmt.Errorf("%w: what is in it does not fit its version", ErrCorrupt)
	}
	return err
}

// randomName keeps databases in memory apart.
func randomName() string { return rand.Text() }
