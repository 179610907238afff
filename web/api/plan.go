package api

import (
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// planModeChange says what an order would do to pools that stand as s says. Whether it is
// right is tested against the controller that carries orders out.
func planModeChange(s *Status, o control.ModeRequest, now time.Time) (ModeReply, error) {
	reply := ModeReply{DryRun: true, Changes: []ModeChange{}}
	for i := range s.Pools {
		p := &s.Pools[i]
		if o.Pool != "" && o.Pool != p.Name {
			continue
		}
		if o.Expected != nil && o.Expected.String() != p.Mode {
			return ModeReply{}, control.ErrModeMismatch
		}
		reply.Changes = append(reply.Changes, plannedChange(p, o, now))
	}
	if len(reply.Changes) == 0 {
		return ModeReply{}, control.ErrNoPool
	}
	return reply, nil
}

func plannedChange(p *PoolStatus, o control.ModeRequest, now time.Time) ModeChange {
	c := ModeChange{Overdue: p.Overdue, DrainS: p.DrainS, Change: Change{
		At: now.UTC().Format(timeLayout), Pool: p.Name, Action: string(o.Action), From: p.Mode, To: targetMode(p, o),
		Running: p.InFlight, Queued: p.QueueDepth,
	}}
	if c.From != c.To || o.DropOverdue {
		c.Actor, c.Via, c.Reason = o.Actor, string(o.Via), o.Reason
	}
	if o.DropOverdue {
		c.Dropped, c.Overdue = p.Overdue, 0
	}
	if c.To == admission.PassThrough.String() {
		c.Before = &p.Mode
		if p.ModeBefore != nil {
			c.Before = p.ModeBefore
		}
	}
	return c
}

// targetMode returns the mode that an order leads to.
func targetMode(p *PoolStatus, o control.ModeRequest) string {
	switch {
	case o.Action != control.Restore:
		return o.Mode.String()
	case p.Mode == admission.PassThrough.String() && p.ModeBefore != nil:
		return *p.ModeBefore
	default:
		return admission.Enforce.String()
	}
}
