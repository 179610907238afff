package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"headgate/runbooks/drill"
)

// How a machine that is too busy is noticed: one that sleeps for stallTick and wakes
// after stallThreshold more has been kept from working, and so has everybody else.
const (
	stallTick      = 20 * time.Millisecond
	stallThreshold = 250 * time.Millisecond
	maxStalls      = 1000
)

// stallDetector are the times at which nothing went on. They are safe for concurrent use.
type stallDetector struct {
	mu  sync.Mutex
	all []drill.Stall
}

// watch looks for lulls until ctx ends.
func (l *stallDetector) watch(ctx context.Context, clock *scenarioClock) {
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			l.record(clock.at(last), now.Sub(last)-stallTick)
			last = now
		}
	}
}

func (l *stallDetector) record(at, took time.Duration) {
	if took < stallThreshold {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) < maxStalls {
		l.all = append(l.all, drill.Stall{At: at, Took: took})
	}
}

func (l *stallDetector) snapshot() []drill.Stall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
