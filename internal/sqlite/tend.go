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

// tend empties the -wal file now and then until the Store is closed.
func (s *Store) tend() {
	defer s.tending.Done()
	for pause(s.life, checkpointEvery) {
		if err := s.checkpoint(s.life); err != nil && s.life.Err() == nil {
			s.log.Warn("the write-ahead log of the record was not emptied; trying again later", "error", err)
		}
	}
}

// checkpoint empties the -wal file. One who reads meanwhile may keep it from
// that, which is no error.
func (s *Store) checkpoint(ctx context.Context) error {
	ctx, cancel := s.bound(ctx, callLimit)
	defer cancel()
	_, err := within(ctx, s.writes, func() (struct{}, error) {
		var blocked, pages, moved int
		return struct{}{}, s.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &pages, &moved)
	})
	if busy(err) {
		return nil
	}
	return s.failed("empty the write-ahead log", err)
}

// unmigrated says what it means when a migration fails on what it finds, rather
// than on the disk: that the file is not what its version says.
func unmigrated(err error) error {
	var e *driver.Error
	if errors.As(err, &e) && (e.Code()&0xff == codes.SQLITE_ERROR || e.Code()&0xff == codes.SQLITE_CONSTRAINT) {
		return fmt.Errorf("%w: what is in it does not fit its version", ErrCorrupt)
	}
	return err
}

// randomName keeps databases in memory apart.
func randomName() string { return rand.Text() }
