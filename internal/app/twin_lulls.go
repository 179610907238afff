package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"headgate/runbooks/drill"
)

// How a machine that is too busy is noticed: one that sleeps for lullTick and wakes
// after lullLimit more has been kept from working, and so has everybody else.
const (
	lullTick  = 20 * time.Millisecond
	lullLimit = 250 * time.Millisecond
	maxLulls  = 1000
)

// lulls are the times at which nothing went on. They are safe for concurrent use.
type lulls struct {
	mu  sync.Mutex
	all []drill.Lull
}

// watch looks for lulls until ctx ends.
func (l *lulls) watch(ctx context.Context, clock *playClock) {
	tick := time.NewTicker(lullTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			l.note(clock.at(last), now.Sub(last)-lullTick)
			last = now
		}
	}
}

func (l *lulls) note(at, took time.Duration) {
	if took < lullLimit {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) < maxLulls {
		l.all = append(l.all, drill.Lull{At: at, Took: took})
	}
}

func (l *lulls) seen() []drill.Lull {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
