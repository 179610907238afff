package tsdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
)

// series is what is remembered of one between two samples.
type series struct {
	labels       labels.Labels
	ref          storage.SeriesRef
	generation   uint64 // that it was last seen in
	staleWritten bool   // its end has been written

	recorded     labels.Labels // of the recorded series; empty: there is none
	recordedRef  storage.SeriesRef
	recordedBase float64 // the counter at the latest recorded point
	latest       float64
}

// Append writes samples of one moment in one commit, and with them the end of
// series that are there no more, and once a minute the recorded series. A counter
// that is seen for the first time counts from 0.
func (db *DB) Append(ctx context.Context, now time.Time, all []Sample) (err error) {
	db.appendMu.Lock()
	defer db.appendMu.Unlock()
	db.reopen(now)
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
		db.observeAppend(now, len(all), err)
	}()
	store := db.store()
	if store == nil {
		return db.notOpen()
	}
	b := &batch{db: db, app: store.Appender(ctx), at: now.UnixMilli(), minute: now.Unix() / 60}
	if err := b.write(all); err != nil {
		return errors.Join(err, b.app.Rollback())
	}
	if err := b.app.Commit(); err != nil {
		return err
	}
	b.applyCommit()
	return nil
}

func (db *DB) notOpen() error {
	if err := db.Health().Err; err != nil {
		return err
	}
	return errClosed
}

func (db *DB) observeAppend(now time.Time, n int, err error) {
	if err != nil {
		db.metrics.appendErrors.Inc()
		db.markFailed(now, err)
		return
	}
	db.metrics.appended.Add(float64(n))
	db.markHealthy(now)
}

// batch is one commit while it is being made.
type batch struct {
	db       *DB
	app      storage.Appender
	at       int64 // unix ms
	minute   int64
	recorded []*series
}

func (b *batch) write(all []Sample) error {
	b.db.generation++
	record := b.minute > b.db.lastRecordedMinute
	for _, s := range all {
		entry := b.lookup(s)
		if entry.generation == b.db.generation {
			continue // twice in one moment: the first counts
		}
		entry.generation, entry.staleWritten, entry.latest = b.db.generation, false, s.V
		if err := b.appendSample(&entry.ref, entry.labels, s.V); err != nil {
			return err
		}
		if record {
			if err := b.appendRecorded(entry); err != nil {
				return err
			}
		}
	}
	return b.appendStaleMarkers()
}

// lookup returns what is remembered of a series.
func (b *batch) lookup(s Sample) *series {
	hash := s.Labels.Hash()
	entry := b.db.cache[hash]
	if entry == nil || !labels.Equal(entry.labels, s.Labels) {
		entry = &series{labels: s.Labels, recorded: recordedLabels(s.Labels)}
		b.db.cache[hash] = entry
	}
	return entry
}

// appendSample writes one sample. A reference to a series that TSDB has dropped since is
// found out by TSDB, which looks the labels up then.
func (b *batch) appendSample(ref *storage.SeriesRef, l labels.Labels, v float64) error {
	got, err := b.app.Append(*ref, l, b.at, v)
	if err != nil {
		return fmt.Errorf("write %s: %w", l.Get(model.MetricNameLabel), err)
	}
	*ref = got
	return nil
}

// appendRecorded writes by how much a counter grew since its latest recorded point.
func (b *batch) appendRecorded(s *series) error {
	if s.recorded.IsEmpty() {
		return nil
	}
	grown := s.latest - s.recordedBase
	if grown < 0 { // it began anew
		grown = s.latest
	}
	b.recorded = append(b.recorded, s)
	return b.appendSample(&s.recordedRef, s.recorded, grown)
}

// appendStaleMarkers marks series that were there before as ended, so that they have no value
// from now on.
func (b *batch) appendStaleMarkers() error {
	for _, s := range b.db.cache {
		if s.generation == b.db.generation || s.staleWritten {
			continue
		}
		if err := b.appendSample(&s.ref, s.labels, math.Float64frombits(value.StaleNaN)); err != nil {
			return err
		}
	}
	return nil
}

// flushRecorded records what counters grew by since the latest full minute, so that
// nothing is missing from the recorded series after an orderly stop.
func (db *DB) flushRecorded(now time.Time) error {
	store := db.store()
	if store == nil {
		return nil
	}
	b := &batch{db: db, app: store.Appender(context.Background()), at: now.UnixMilli(), minute: now.Unix() / 60}
	for _, s := range db.cache {
		if s.latest == s.recordedBase {
			continue
		}
		if err := b.appendRecorded(s); err != nil {
			return errors.Join(err, b.app.Rollback())
		}
	}
	return b.app.Commit()
}

// applyCommit takes into account that the commit stands.
func (b *batch) applyCommit() {
	for _, s := range b.recorded {
		s.recordedBase = s.latest
	}
	b.db.lastRecordedMinute = max(b.db.lastRecordedMinute, b.minute)
	for hash, s := range b.db.cache {
		if s.generation != b.db.generation {
			delete(b.db.cache, hash)
		}
	}
}
