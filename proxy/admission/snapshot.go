package admission

import (
	"runtime"
	"sync"
	"time"
)

// Snapshot is the state of a gate at one instant. Gauges are read from it; none
// is maintained by hand.
type Snapshot struct {
	Mode        Mode
	Policy      string
	Draining    bool
	PausedUntil time.Time // no permit is granted before; zero: the pool is not paused
	Workers     int
	InFlight    int
	Depth       int
	OldestAge   time.Duration // age of the oldest waiting task of any class, 0 if none waits
	Service     Service
	// StaleFor is how long the lock could not be taken, with this state the latest
	// known; mostly 0.
	StaleFor time.Duration
}

// Snapshot returns the state at now. If the lock cannot be taken, because a policy
// does not return, it returns the state at the latest Snapshot or change of
// settings: a stuck gate must not block those who monitor it.
func (g *Gate) Snapshot(now time.Time) Snapshot {
	if !g.tryLock() {
		return g.cached.load(now)
	}
	defer g.unlock()
	s := g.snapshotLocked(g.advanceLocked(now))
	g.cached.store(s)
	return s
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

// lockAttempts is for how many turns of other goroutines Snapshot tries to take
// the lock: about a millisecond, a thousand times as long as a decision takes.
const lockAttempts = 2000

// tryLock takes the lock if it becomes free soon.
func (g *Gate) tryLock() bool {
	for range lockAttempts {
		if g.mu.TryLock() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// cachedSnapshot is the latest state that was read.
type cachedSnapshot struct {
	mu         sync.Mutex
	snapshot   Snapshot
	staleSince time.Time // of the first Snapshot that could not take the lock, zero if the latest could
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
