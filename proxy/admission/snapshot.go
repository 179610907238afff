package admission

import (
	"runtime"
	"sync"
	"time"
)

// Snapshot is the state of a gate at one instant. Gauges are read from it; none
// is kept by hand.
type Snapshot struct {
	Mode        Mode
	Policy      string
	Draining    bool
	PausedUntil time.Time // until when no permit is handed out; zero: the pool is not paused
	Workers     int
	InFlight    int
	Depth       int
	OldestAge   time.Duration // age of the oldest waiting task of any class, 0 if none waits
	Service     Service
	StaleFor    time.Duration // for how long the lock could not be had, and this state has been the latest known; mostly 0
}

// Snapshot returns the state at now. When the lock cannot be had, because a
// policy does not come to its end, it returns the state at the latest Snapshot or
// change of settings: whoever watches a gate must not be held up by it.
func (g *Gate) Snapshot(now time.Time) Snapshot {
	for g.tryLock() {
		now = g.advanceLocked(now)
		if g.pauseExpiredLocked(now) {
			g.endPauseAndUnlock(now)
			continue
		}
		s := g.snapshotLocked(now)
		g.cached.store(s)
		g.mu.Unlock()
		return s
	}
	return g.cached.load(now)
}

func (g *Gate) snapshotLocked(now time.Time) Snapshot {
	v := g.viewLocked(now)
	s := Snapshot{
		Mode: g.settings.Mode, Policy: g.settings.Policy.Name(), Draining: g.draining,
		PausedUntil: g.pausedUntil, Workers: v.Workers, InFlight: g.inFlight, Depth: v.Depth, Service: v.Service,
	}
	for c := range numClasses {
		s.OldestAge = max(s.OldestAge, v.OldestAge(c))
	}
	return s
}

// lockAttempts is for how many turns of other goroutines a Snapshot waits for the lock:
// about a millisecond, a thousand times as long as a decision takes.
const lockAttempts = 2000

// tryLock takes the lock if it can be had soon.
func (g *Gate) tryLock() bool {
	for range lockAttempts {
		if g.mu.TryLock() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// cachedSnapshot is the latest state that was looked at.
type cachedSnapshot struct {
	mu         sync.Mutex
	snapshot   Snapshot
	staleSince time.Time // of the first Snapshot that could not have the lock, zero if the latest could
}

func (l *cachedSnapshot) store(s Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapshot, l.staleSince = s, time.Time{}
}

func (l *cachedSnapshot) load(now time.Time) Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.staleSince.IsZero() {
		l.staleSince = now
	}
	s := l.snapshot
	s.StaleFor = max(now.Sub(l.staleSince), 0)
	return s
}
