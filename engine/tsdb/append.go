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
	labels labels.Labels
	ref    storage.SeriesRef
	round  uint64 // that it was last seen in
	ended  bool   // its end has been written

	recorded labels.Labels // of the recorded series; empty: there is none
	recRef   storage.SeriesRef
	base     float64 // the counter at the latest recorded point
	latest   float64
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
		db.appended(now, len(all), err)
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
	b.done()
	return nil
}

func (db *DB) notOpen() error {
	if err := db.Health().Err; err != nil {
		return err
	}
	return errClosed
}

func (db *DB) appended(now time.Time, n int, err error) {
	if err != nil {
		db.metrics.appendErrors.Inc()
		db.ill(now, err)
		return
	}
	db.metrics.appended.Add(float64(n))
	db.well(now)
}

// batch is one commit while it is being made.
type batch struct {
	db     *DB
	app    storage.Appender
	at     int64 // unix ms
	minute int64
	seen   []*series
}

func (b *batch) write(all []Sample) error {
	b.db.round++
	record := b.minute > b.db.minute
	for _, s := range all {
		entry := b.entry(s)
		if entry.round == b.db.round {
			continue // twice in one moment: the first counts
		}
		entry.round, entry.ended, entry.latest = b.db.round, false, s.V
		if err := b.put(&entry.ref, entry.labels, s.V); err != nil {
			return err
		}
		if record {
			if err := b.record(entry); err != nil {
				return err
			}
		}
	}
	return b.end()
}

// entry returns what is remembered of a series.
func (b *batch) entry(s Sample) *series {
	hash := s.Labels.Hash()
	entry := b.db.cache[hash]
	if entry == nil || !labels.Equal(entry.labels, s.Labels) {
		entry = &series{labels: s.Labels, recorded: recordedLabels(s.Labels)}
		b.db.cache[hash] = entry
	}
	return entry
}

// put writes one sample. A reference to a series that TSDB has dropped since is
// found out by TSDB, which looks the labels up then.
func (b *batch) put(ref *storage.SeriesRef, l labels.Labels, v float64) error {
	got, err := b.app.Append(*ref, l, b.at, v)
	if err != nil {
		return fmt.Errorf("write %s: %w", l.Get(model.MetricNameLabel), err)
	}
	*ref = got
	return nil
}

// record writes by how much a counter grew since its latest recorded point.
func (b *batch) record(s *series) error {
	if s.recorded.IsEmpty() {
		return nil
	}
	grown := s.latest - s.base
	if grown < 0 { // it began anew
		grown = s.latest
	}
	b.seen = append(b.seen, s)
	return b.put(&s.recRef, s.recorded, grown)
}

// end marks series that were there before as ended, so that they have no value
// from now on.
func (b *batch) end() error {
	for _, s := range b.db.cache {
		if s.round == b.db.round || s.ended {
			continue
		}
		if err := b.put(&s.ref, s.labels, math.Float64frombits(value.StaleNaN)); err != nil {
			return err
		}
	}
	return nil
}

// flush records what counters grew by since the latest full minute, so that
// nothing is missing from the recorded series after an orderly stop.
func (db *DB) flush(now time.Time) error {
	store := db.store()
	if store == nil {
		return nil
	}
	b := &batch{db: db, app: store.Appender(context.Background()), at: now.UnixMilli(), minute: now.Unix() / 60}
	for _, s := range db.cache {
		if s.latest == s.base {
			continue
		}
		if err := b.record(s); err != nil {
			return errors.Join(err, b.app.Rollback())
		}
	}
	return b.app.Commit()
}

// done takes into account that the commit stands.
func (b *batch) done() {
	for _, s := range b.seen {
		s.base = s.latest
	}
	b.db.minute = max(b.db.minute, b.minute)
	for hash, s := range b.db.cache {
		if s.round != b.db.round {
			delete(b.db.cache, hash)
		}
	}
}
