package admission

import (
	"runtime"
	"sync"
	"time"
)

// Snapshot is the state of a gate at one instant. Gauges are read from it; none
// is kept by hand.
type Snapshot struct {
	Mode     Mode
	Policy   string
	Draining bool
	Paused   time.Time // until when no permit is handed out; zero: the pool is not paused
	Workers  int
	InFlight int
	Depth    int
	Oldest   time.Duration // age of the oldest waiting task of any class, 0 if none waits
	Service  Service
	Behind   time.Duration // for how long the lock could not be had, and this state has been the latest known; mostly 0
}

// Snapshot returns the state at now. When the lock cannot be had, because a
// policy does not come to its end, it returns the state at the latest Snapshot or
// change of settings: whoever watches a gate must not be held up by it.
func (g *Gate) Snapshot(now time.Time) Snapshot {
	for g.tryLock() {
		now = g.advanceLocked(now)
		if g.pauseOverLocked(now) {
			g.endPauseAndUnlock(now)
			continue
		}
		s := g.snapshotLocked(now)
		g.glance.keep(s)
		g.mu.Unlock()
		return s
	}
	return g.glance.last(now)
}

func (g *Gate) snapshotLocked(now time.Time) Snapshot {
	v := g.viewLocked(now)
	s := Snapshot{
		Mode: g.settings.Mode, Policy: g.settings.Policy.Name(), Draining: g.draining,
		Paused: g.paused, Workers: v.Workers, InFlight: g.inFlight, Depth: v.Depth, Service: v.Service,
	}
	for c := range classes {
		s.Oldest = max(s.Oldest, v.Oldest(c))
	}
	return s
}

// tries is for how many turns of other goroutines a Snapshot waits for the lock:
// about a millisecond, a thousand times as long as a decision takes.
const tries = 2000

// tryLock takes the lock if it can be had soon.
func (g *Gate) tryLock() bool {
	for range tries {
		if g.mu.TryLock() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// glance is the latest state that was looked at.
type glance struct {
	mu    sync.Mutex
	s     Snapshot
	since time.Time // of the first Snapshot that could not have the lock, zero if the latest could
}

func (l *glance) keep(s Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s, l.since = s, time.Time{}
}

func (l *glance) last(now time.Time) Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = now
	}
	s := l.s
	s.Behind = max(now.Sub(l.since), 0)
	return s
}
