package control

import (
	"slices"
	"time"

	"headgate/proxy/admission"
)

// poolView is how a pool stands, and its gate with it.
type poolView struct {
	ModeState
	gate     admission.Snapshot
	recorded bool // the standing is
}

// poolViews returns all pools, in the order in which they were added.
func (c *Controller) poolViews(now time.Time) []poolView {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]poolView, 0, len(c.pools))
	for _, p := range c.pools {
		pends := slices.ContainsFunc(c.pending, func(q ModeChange) bool { return q.Pool == p.state.Pool })
		all = append(all, poolView{ModeState: p.state, gate: p.gate.Snapshot(now), recorded: !pends})
	}
	return all
}

// gate returns a pool's gate, nil if there is no such pool.
func (c *Controller) gate(pool string) *admission.Gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		if p.state.Pool == pool {
			return p.gate
		}
	}
	return nil
}

// mode returns the mode that a pool's gate is in, Enforce if there is no such pool.
// All that was applied until then Applied has heard of.
func (c *Controller) mode(pool string) admission.Mode {
	for _, v := range c.poolViews(time.Now()) {
		if v.Pool == pool {
			return v.gate.Mode
		}
	}
	return admission.Enforce
}

// dryRun says what an order would do, and does nothing.
func (c *Controller) dryRun(now time.Time, o ModeRequest) ([]ModeChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools, err := c.selectPoolsLocked(o)
	if err != nil {
		return nil, err
	}
	changes := make([]ModeChange, 0, len(pools))
	for _, p := range pools {
		s, to := p.gate.Snapshot(now), targetMode(o, p.state)
		change := ModeChange{
			Pool: p.state.Pool, Action: o.Action, From: p.state.Mode, To: to, At: now.UTC().Truncate(time.Millisecond),
			Running: s.InFlight, Queued: s.Depth, RestoreMode: restoreModeAfter(p.state, to), Actor: o.Actor, Via: o.Via, Reason: o.Reason,
		}
		if o.DropOverdue {
			change.Dropped, _ = p.gate.Overdue(now)
		}
		changes = append(changes, change)
	}
	return changes, nil
}
