package ui

import (
	"context"
	"sync"
	"time"
)

// PoolFacts are limits and objective of a pool, which its status does not show.
type PoolFacts struct {
	MaxAge    time.Duration // of the oldest waiting task, above which arrivals are refused; 0: none
	MaxDepth  int           // of the queue, above which arrivals are refused; 0: none
	Objective float64       // share of tasks that must make it
	Window    time.Duration // over which that is counted

	sloCounts // of the window
}

// sloCounts is how many tasks of a window were good and bad, at a time.
type sloCounts struct {
	Good, Bad int64
	Counted   bool // false: Good and Bad could not be read
	at        time.Time
}

// sloCountsTTL is how long the counts of an error budget are shown as they are: they
// are recorded once a minute.
const sloCountsTTL = 15 * time.Second

// factsCache returns the facts of pools, and keeps the counts of their error budgets.
type factsCache struct {
	limits func(pool string) (PoolFacts, bool)
	slo    func(ctx context.Context, pool string, since time.Time) (good, bad int64, err error)

	mu     sync.Mutex
	counts map[string]sloCounts // by pool; names of pools come from the settings, so there are few
}

// of returns the facts of a pool, none if there is no pool of that name.
func (f *factsCache) of(ctx context.Context, now time.Time, pool string) PoolFacts {
	facts, ok := f.limits(pool)
	if !ok {
		return PoolFacts{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.counts[pool]
	if !b.Counted || now.Sub(b.at) >= sloCountsTTL {
		good, bad, err := f.slo(ctx, pool, now.Add(-facts.Window))
		b = sloCounts{Good: good, Bad: bad, Counted: err == nil, at: now}
		if f.counts == nil {
			f.counts = make(map[string]sloCounts)
		}
		f.counts[pool] = b
	}
	facts.sloCounts = b
	return facts
}
