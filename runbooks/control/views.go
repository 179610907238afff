package control

import (
	"slices"
	"time"

	"headgate/proxy/admission"
)

// view is how a pool stands, and its gate with it.
type view struct {
	Standing
	gate     admission.Snapshot
	recorded bool // the standing is
}

// views returns all pools, in the order in which they were added.
func (c *Controller) views(now time.Time) []view {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]view, 0, len(c.pools))
	for _, p := range c.pools {
		pends := slices.ContainsFunc(c.pending, func(q Change) bool { return q.Pool == p.standing.Pool })
		all = append(all, view{Standing: p.standing, gate: p.gate.Snapshot(now), recorded: !pends})
	}
	return all
}

// gate returns a pool's gate, nil if there is no such pool.
func (c *Controller) gate(pool string) *admission.Gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		if p.standing.Pool == pool {
			return p.gate
		}
	}
	return nil
}

// mode returns the mode that a pool's gate is in, Enforce if there is no such pool.
// All that was applied until then Applied has heard of.
func (c *Controller) mode(pool string) admission.Mode {
	for _, v := range c.views(time.Now()) {
		if v.Pool == pool {
			return v.gate.Mode
		}
	}
	return admission.Enforce
}

// plan says what an order would do, and does nothing.
func (c *Controller) plan(now time.Time, o Order) ([]Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools, err := c.chosenLocked(o)
	if err != nil {
		return nil, err
	}
	changes := make([]Change, 0, len(pools))
	for _, p := range pools {
		s, to := p.gate.Snapshot(now), target(o, p.standing)
		change := Change{
			Pool: p.standing.Pool, Action: o.Action, From: p.standing.Mode, To: to, At: now.UTC().Truncate(time.Millisecond),
			Running: s.InFlight, Queued: s.Depth, Before: beforeOf(p.standing, to), Actor: o.Actor, Via: o.Via, Reason: o.Reason,
		}
		if o.DropOverdue {
			change.Dropped, _ = p.gate.Overdue(now)
		}
		changes = append(changes, change)
	}
	return changes, nil
}
