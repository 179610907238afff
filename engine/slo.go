package engine

import (
	"context"
	"log/slog"
	"time"
)

const (
	sloInterval   = time.Minute // between two records of SLO counts
	pruneInterval = time.Hour
	sloTimeout    = 10 * time.Second // of one access to the store
)

// SLOTotals count a pool's tasks that enter its SLO, since the start of the process.
type SLOTotals struct{ Tasks, Bad int64 }

// SLOCount is what a pool has counted within one hour since the record was opened. It is a total, not a difference
// to the count before, so that it may be recorded twice.
type SLOCount struct {
	Pool string
	Hour time.Time // any moment of the hour
	Good int64     // tasks within the objective
	Bad  int64
}

// SLOStore is the record that SLO counts go to.
type SLOStore interface {
	SaveSLO(ctx context.Context, counts []SLOCount) error
	// Prune deletes history from before a time, and returns how many incidents it deleted.
	Prune(ctx context.Context, before time.Time) (incidents int, err error)
}

// SLORecorder records how many tasks kept the SLO in each hour, so that an error budget over weeks needs no samples of
// weeks, and deletes history after its retention.
type SLORecorder struct {
	store     SLOStore
	totals    func() map[string]SLOTotals
	retention time.Duration
	log       *slog.Logger

	hour     time.Time            // that is being counted
	baseline map[string]SLOTotals // the totals when it began
}

// NewSLORecorder returns a recorder that counts from now on. totals returns the current totals by pool.
func NewSLORecorder(store SLOStore, totals func() map[string]SLOTotals, retention time.Duration, log *slog.Logger) *SLORecorder {
	return &SLORecorder{
		store: store, totals: totals, retention: retention, log: log,
		hour: time.Now().UTC().Truncate(time.Hour), baseline: totals(),
	}
}

// Run records every minute and prunes every hour until ctx ends, and records once more then.
func (r *SLORecorder) Run(ctx context.Context) {
	record, prune := time.NewTicker(sloInterval), time.NewTicker(pruneInterval)
	defer record.Stop()
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			r.Record(context.WithoutCancel(ctx), time.Now())
			return
		case now := <-record.C:
			r.Record(ctx, now)
		case now := <-prune.C:
			r.prune(ctx, now)
		}
	}
}

// Record saves the counts of the hour. A failed attempt loses nothing: the next one saves the whole hour again. Only
// what could not be saved before the hour ended counts for the next hour.
func (r *SLORecorder) Record(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, sloTimeout)
	defer cancel()
	current := r.totals()
	var counts []SLOCount
	for pool, c := range current {
		was := r.baseline[pool]
		if tasks := c.Tasks - was.Tasks; tasks > 0 {
			bad := c.Bad - was.Bad
			counts = append(counts, SLOCount{Pool: pool, Hour: r.hour, Good: tasks - bad, Bad: bad})
		}
	}
	if err := r.store.SaveSLO(ctx, counts); err != nil {
		r.log.Warn("saving SLO counts failed, trying again", "error", err)
		return
	}
	if hour := now.UTC().Truncate(time.Hour); hour.After(r.hour) {
		r.hour, r.baseline = hour, current
	}
}

func (r *SLORecorder) prune(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, sloTimeout)
	defer cancel()
	n, err := r.store.Prune(ctx, now.Add(-r.retention))
	if err != nil {
		r.log.Warn("deleting old history failed, trying again in an hour", "error", err)
	}
	if n > 0 {
		r.log.Info("old incidents deleted", "count", n)
	}
}
