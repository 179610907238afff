package tsdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// series is the state of a series between two samples.
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

// Append writes the samples of one time in one commit, with stale markers for series that have ended, and once a minute
// the recorded series. A counter that is seen for the first time counts from 0.
func (db *DB) Append(ctx context.Context, now time.Time, all []Sample) error {
	db.appendMu.Lock()
	defer db.appendMu.Unlock()
	db.reopen(now)
	err := recoverPanic(func() error {
		store := db.store()
		if store == nil {
			return db.notOpen()
		}
		b := newBatch(ctx, db, store, now)
		if err := b.write(all); err != nil {
			return errors.Join(err, b.app.Rollback())
		}
		if err := b.app.Commit(); err != nil {
			return err
		}
		b.applyCommit()
		return nil
	})
	if err != nil {
		db.metrics.appendErrors.Inc()
		db.markFailed(now, err)
		return err
	}
	db.metrics.appended.Add(float64(len(all)))
	db.markHealthy(now)
	return nil
}

func (db *DB) notOpen() error {
	if err := db.Health().Err; err != nil {
		return err
	}
	return errClosed
}

// batch is one commit in progress.
type batch struct {
	db       *DB
	app      storage.Appender
	at       int64 // unix ms
	minute   int64
	recorded []*series
}

func newBatch(ctx context.Context, db *DB, store *tsdb.DB, now time.Time) *batch {
	return &batch{db: db, app: store.Appender(ctx), at: now.UnixMilli(), minute: now.Unix() / 60}
}

func (b *batch) write(all []Sample) error {
	b.db.generation++
	record := b.minute > b.db.lastRecordedMinute
	for _, s := range all {
		entry := b.lookup(s)
		if entry.generation == b.db.generation {
			continue // repeated: the first counts
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

// lookup returns the state of a series.
func (b *batch) lookup(s Sample) *series {
	hash := s.Labels.Hash()
	entry := b.db.cache[hash]
	if entry == nil || !labels.Equal(entry.labels, s.Labels) {
		entry = &series{labels: s.Labels, recorded: recordedLabels(s.Labels)}
		b.db.cache[hash] = entry
	}
	return entry
}

// appendSample writes one sample. If TSDB has dropped the referenced series, it looks the labels up.
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
	if grown < 0 { // the counter was reset
		grown = s.latest
	}
	b.recorded = append(b.recorded, s)
	return b.appendSample(&s.recordedRef, s.recorded, grown)
}

// appendStaleMarkers marks ended series, so that they have no value from now on.
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

// flushRecorded records the growth of counters since the latest full minute, so that recorded series are complete after
// an orderly stop.
func (db *DB) flushRecorded(now time.Time) error {
	store := db.store()
	if store == nil {
		return nil
	}
	b := newBatch(context.Background(), db, store, now)
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

// applyCommit updates the state of the series after the commit.
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

// prefix of the families that are kept.
const prefix = "headgate_"

// Sample is a value of one series.
type Sample struct {
	Labels labels.Labels // with the name as __name__
	V      float64
}

// Collect gathers the process's own metric families once, and appends them. Health shows failures.
func (db *DB) Collect(ctx context.Context, now time.Time) {
	if db.o.Gatherer == nil {
		return
	}
	all, err := db.gather(now)
	if err != nil {
		db.metrics.gatherErrors.Inc()
		db.o.Log.Debug("some metrics could not be gathered", "error", err)
	}
	_ = db.Append(ctx, now, all) // shown by Health
}

// gather returns samples also beside an error, so that one bad collector does not affect rules on others.
func (db *DB) gather(now time.Time) ([]Sample, error) {
	var families []*dto.MetricFamily
	err := recoverPanic(func() (err error) {
		families, err = db.o.Gatherer.Gather()
		return err
	})
	var ours []*dto.MetricFamily
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), prefix) {
			ours = append(ours, f)
		}
	}
	at := expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(now.UnixNano())}
	vector, extractErr := expfmt.ExtractSamples(&at, ours...)
	err = cmp.Or(err, extractErr)
	all := make([]Sample, 0, len(vector))
	for _, s := range vector {
		all = append(all, Sample{Labels: sortedLabels(s.Metric), V: float64(s.Value)})
	}
	return all, err
}

// sortedLabels returns the labels of a metric as the storage takes them.
func sortedLabels(m model.Metric) labels.Labels {
	b := labels.NewScratchBuilder(len(m))
	for name, value := range m {
		b.Add(string(name), string(value))
	}
	b.Sort()
	return b.Labels()
}

// LongWindow is the shortest window that has to read recorded series.
const LongWindow = 3600 // seconds

const (
	recordedPrefix = "headgate:"
	recordedSuffix = ":1m"
)

// recordable are the families that are recorded once a minute: counters of tasks, and the histograms for quantiles over
// long windows.
var recordable = map[string]bool{
	"headgate_arrivals_total": true, "headgate_tasks_total": true,
	"headgate_refusals_total": true, "headgate_would_refuse_total": true, "headgate_upstream_refusals_total": true,
	"headgate_slo_tasks_total": true, "headgate_slo_bad_tasks_total": true,
	"headgate_service_seconds_bucket": true, "headgate_service_seconds_sum": true, "headgate_service_seconds_count": true,
	"headgate_turnaround_seconds_bucket": true, "headgate_turnaround_seconds_sum": true,
	"headgate_turnaround_seconds_count": true,
}

// RecordedName returns the name of the recorded series of a counter, and whether it has one: headgate_slo_tasks_total
// has headgate:slo_tasks:1m.
func RecordedName(counter string) (string, bool) {
	if !recordable[counter] {
		return "", false
	}
	base := strings.TrimSuffix(strings.TrimPrefix(counter, prefix), "_total")
	return recordedPrefix + base + recordedSuffix, true
}

// CounterName returns the counter of a recorded series, and whether there is a recorded series of that name.
func CounterName(recorded string) (string, bool) {
	for name := range recordable {
		if r, _ := RecordedName(name); r == recorded {
			return name, true
		}
	}
	return "", false
}

// IsRecorded says whether there is a recorded series of that name.
func IsRecorded(name string) bool {
	_, ok := CounterName(name)
	return ok
}

func recordedLabels(l labels.Labels) labels.Labels {
	name, ok := RecordedName(l.Get(model.MetricNameLabel))
	if !ok {
		return labels.EmptyLabels()
	}
	b := labels.NewBuilder(l)
	b.Set(model.MetricNameLabel, name)
	return b.Labels()
}
