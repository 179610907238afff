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
	g.control(now, func() {
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
		g.leaving.Store(true) // whoever has the lock before us does not ask the policy any more
	}
	var before Mode
	g.control(now, func() {
		if before = g.settings.Mode; before != m {
			g.settings.Mode, g.honoured = m, g.seq
		}
		g.leaving.Store(m == PassThrough)
	})
	return before
}

// Drain turns away everybody who waits, and from now on everybody who comes,
// with ReasonDraining. Those who run are left to finish.
func (g *Gate) Drain(now time.Time) {
	done := g.drain(now)
	done.tell()
}

func (g *Gate) drain(now time.Time) settled {
	now = g.lock(now)
	defer g.mu.Unlock()
	g.draining = true
	var done settled
	for t := g.queue.front(); t != nil; t = g.queue.front() {
		v := g.viewLocked(now)
		g.sawLocked(now, t, StepLeft)
		g.leaveLocked(t)
		done.add(t, refuse(Verdict{ReasonDraining, v.Drain(v.Depth)}, t.task.Spread).Refusal)
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
	return n, v.Drain(v.Depth)
}

// DropOverdue turns away those who wait and can no longer end in time, and
// returns how many they were. It is for the return from a mode in which
// deadlines did not count.
func (g *Gate) DropOverdue(now time.Time) int {
	n, done := g.dropOverdue(now)
	done.tell()
	return n
}

func (g *Gate) dropOverdue(now time.Time) (int, settled) {
	now = g.lock(now)
	defer g.mu.Unlock()
	v := g.viewLocked(now)
	var done settled
	overdue := slices.Collect(g.overdueLocked(v))
	for _, t := range overdue {
		reason := ReasonDeadlineUnmeetable
		if t.task.late(v.Now) {
			reason = ReasonDeadlinePassed
		}
		g.sawLocked(v.Now, t, StepLeft)
		g.leaveLocked(t)
		done.add(t, refuse(Verdict{reason, v.Drain(g.queue.depth)}, t.task.Spread).Refusal)
	}
	return len(overdue), done
}

// overdueLocked yields the waiting tickets whose projected end, behind those
// that stay, is past their deadline.
func (g *Gate) overdueLocked(v View) iter.Seq[*Ticket] {
	return func(yield func(*Ticket) bool) {
		stay := 0
		for t := range g.queue.all() {
			end := v.Now.Add(v.Drain(stay + 1)).Add(v.Service.Mean)
			if t.task.Deadline.IsZero() || !end.After(t.task.Deadline) {
				stay++
			} else if !yield(t) {
				return
			}
		}
	}
}

// control changes a setting and grants what the change has made possible.
func (g *Gate) control(now time.Time, change func()) {
	done := func() settled {
		now := g.lock(now)
		defer g.mu.Unlock()
		change()
		return g.changedLocked(now)
	}()
	done.tell()
}

func (g *Gate) changedLocked(now time.Time) settled {
	if g.pauseOverLocked(now) {
		g.paused = time.Time{}
	}
	g.termsLocked()
	done := g.grantWaitingLocked(now)
	g.glance.keep(g.snapshotLocked(now))
	return done
}
