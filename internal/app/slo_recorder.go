package app

import (
	"context"
	"log/slog"
	"time"

	"headgate/internal/sqlite"
	"headgate/proxy"
)

const (
	sloInterval   = time.Minute // between two records of SLO counts
	pruneInterval = time.Hour
	storeTimeout  = 10 * time.Second
)

// sloRecorder records how many tasks kept the SLO in each hour, so that a budget over
// weeks needs no samples of weeks, and deletes history that is old enough.
type sloRecorder struct {
	store   *sqlite.Store
	metrics *proxy.Metrics
	history time.Duration
	log     *slog.Logger

	hour     time.Time                  // that is being counted
	baseline map[string]proxy.SLOCounts // what the counters stood at when it began
}

func newSLORecorder(store *sqlite.Store, metrics *proxy.Metrics, history time.Duration, log *slog.Logger) *sloRecorder {
	return &sloRecorder{
		store: store, metrics: metrics, history: history, log: log,
		hour: time.Now().UTC().Truncate(time.Hour), baseline: metrics.SLO(),
	}
}

// run keeps until ctx ends, and once more then.
func (k *sloRecorder) run(ctx context.Context) {
	keep, prune := time.NewTicker(sloInterval), time.NewTicker(pruneInterval)
	defer keep.Stop()
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			k.record(context.WithoutCancel(ctx), time.Now())
			return
		case now := <-keep.C:
			k.record(ctx, now)
		case now := <-prune.C:
			k.prune(ctx, now)
		}
	}
}

// record records the counts of the hour. A failed attempt costs nothing: the next
// one has all of the hour again. Only what could not be recorded before the hour
// was over counts for the next one.
func (k *sloRecorder) record(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	current := k.metrics.SLO()
	var counts []sqlite.SLOCount
	for pool, c := range current {
		was := k.baseline[pool]
		if tasks := c.Tasks - was.Tasks; tasks > 0 {
			bad := c.Bad - was.Bad
			counts = append(counts, sqlite.SLOCount{Pool: pool, Hour: k.hour, Good: tasks - bad, Bad: bad})
		}
	}
	if err := k.store.SaveSLO(ctx, counts); err != nil {
		k.log.Warn("SLO counts were not recorded; trying again", "error", err)
		return
	}
	if hour := now.UTC().Truncate(time.Hour); hour.After(k.hour) {
		k.hour, k.baseline = hour, current
	}
}

func (k *sloRecorder) prune(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	n, err := k.store.Prune(ctx, now.Add(-k.history))
	if err != nil {
		k.log.Warn("old history was not deleted; trying again in an hour", "error", err)
	}
	if n > 0 {
		k.log.Info("old incidents deleted", "count", n)
	}
}
