package admission

import (
	"iter"
	"slices"
	"time"
)

// Reconfigure changes everything but mode and watcher at once, from the next decision
// on, or nothing when c makes no sense. Nothing that runs or waits is touched:
// more permits are granted to those who wait; fewer are taken from nobody.
func (g *Gate) Reconfigure(now time.Time, c Config) error {
	c.Mode = Enforce // any valid one
	if err := c.validate(); err != nil {
		return err
	}
	g.update(now, func() {
		c.Mode = g.settings.Mode
		g.settings = c
		if !g.estimate.Measured {
			g.estimate.Mean = c.AssumedService
		}
	})
	return nil
}

// SetMode changes what the policy's word counts for, from the next offer on,
// and returns the mode before. Nothing that runs or waits is touched: those who
// came in under another mode are served, even if their deadline passes. Only
// DropOverdue takes that back.
func (g *Gate) SetMode(now time.Time, m Mode) Mode {
	if m == PassThrough {
		g.bypassing.Store(true) // whoever has the lock before us does not ask the policy any more
	}
	var before Mode
	g.update(now, func() {
		if before = g.settings.Mode; before != m {
			g.settings.Mode, g.grandfatheredBelow = m, g.seq
		}
		g.bypassing.Store(m == PassThrough)
	})
	return before
}

// Drain turns away everybody who waits, and from now on everybody who comes,
// with ReasonDraining. Those who run are left to finish.
func (g *Gate) Drain(now time.Time) {
	done := g.drain(now)
	done.notify()
}

func (g *Gate) drain(now time.Time) wakeList {
	now = g.lock(now)
	defer g.mu.Unlock()
	g.draining = true
	var done wakeList
	for t := g.queue.front(); t != nil; t = g.queue.front() {
		v := g.viewLocked(now)
		g.notifyStepLocked(now, t, StepDequeued)
		g.dequeueLocked(t)
		done.add(t, refuse(Verdict{ReasonDraining, v.DrainTime(v.Depth)}, t.task.JitterSeed).Refusal)
	}
	return done
}

// Overdue returns how many of those who wait can no longer end in time, and how
// long it takes until all who wait have been granted a permit, both at the
// observed rate of service.
func (g *Gate) Overdue(now time.Time) (n int, drain time.Duration) {
	now = g.lock(now)
	defer g.mu.Unlock()
	v := g.viewLocked(now)
	for range g.overdueLocked(v) {
		n++
	}
	return n, v.DrainTime(v.Depth)
}

// DropOverdue turns away those who wait and can no longer end in time, and
// returns how many they were. It is for the return from a mode in which
// deadlines did not count.
func (g *Gate) DropOverdue(now time.Time) int {
	n, done := g.dropOverdue(now)
	done.notify()
	return n
}

func (g *Gate) dropOverdue(now time.Time) (int, wakeList) {
	now = g.lock(now)
	defer g.mu.Unlock()
	v := g.viewLocked(now)
	var done wakeList
	overdue := slices.Collect(g.overdueLocked(v))
	for _, t := range overdue {
		reason := ReasonDeadlineUnmeetable
		if t.task.pastDeadline(v.Now) {
			reason = ReasonDeadlinePassed
		}
		g.notifyStepLocked(v.Now, t, StepDequeued)
		g.dequeueLocked(t)
		done.add(t, refuse(Verdict{reason, v.DrainTime(g.queue.depth)}, t.task.JitterSeed).Refusal)
	}
	return len(overdue), done
}

// overdueLocked yields the waiting tickets whose projected end, behind those
// that stay, is past their deadline.
func (g *Gate) overdueLocked(v View) iter.Seq[*Ticket] {
	return func(yield func(*Ticket) bool) {
		stay := 0
		for t := range g.queue.all() {
			end := v.Now.Add(v.DrainTime(stay + 1)).Add(v.Service.Mean)
			if t.task.Deadline.IsZero() || !end.After(t.task.Deadline) {
				stay++
			} else if !yield(t) {
				return
			}
		}
	}
}

// update changes a setting and grants what the change has made possible.
func (g *Gate) update(now time.Time, change func()) {
	done := func() wakeList {
		now := g.lock(now)
		defer g.mu.Unlock()
		change()
		return g.applyChangeLocked(now)
	}()
	done.notify()
}

func (g *Gate) applyChangeLocked(now time.Time) wakeList {
	if g.pauseExpiredLocked(now) {
		g.pausedUntil = time.Time{}
	}
	g.notifyLimitsLocked()
	done := g.grantWaitingLocked(now)
	g.cached.store(g.snapshotLocked(now))
	return done
}
