package app

import (
	"time"

	"headgate/proxy/admission"
	"headgate/web/api"
)

// Status implements api.StatusSource.
func (a *App) Status(now time.Time) api.Status {
	s := api.Status{Version: a.version}
	for _, p := range a.Pools() {
		s.Pools = append(s.Pools, a.poolStatus(now, p))
	}
	return s
}

func (a *App) poolStatus(now time.Time, p Pool) api.PoolStatus {
	gate := p.Gate.Snapshot(now)
	overdue, drain := p.Gate.Overdue(now)
	recent := a.metrics.Recent(p.Name, now)
	s := api.PoolStatus{
		Name: p.Name, Mode: gate.Mode.String(), Policy: gate.Policy,
		Workers: gate.Workers, InFlight: gate.InFlight, QueueDepth: gate.Depth,
		QueueOldestAgeS: api.Seconds(gate.OldestAge), Overdue: overdue, DrainS: api.Seconds(drain), Draining: gate.Draining,
		SLOS: api.Seconds(p.SLO), Refused1m: recent.Rejected, Admitted1m: max(recent.Arrivals-recent.Rejected-recent.Invalid, 0),
	}
	if recent.Ended > 0 {
		p95 := api.Seconds(recent.P95)
		s.P95TurnaroundS = &p95
	}
	if use, known := a.metrics.EnvelopeUse(p.Name, now); known {
		s.EnvelopeUse = &use
	}
	s.AutoRollback, s.Paused = a.autoRollbackStatus(now, p.Name), a.pauseStatus(now, p.Name)
	if standing, ok := a.modes.State(p.Name); ok {
		recorded := a.modes.Recorded(p.Name)
		s.ModeSince, s.ModeBy, s.ModeReason, s.ModeRecorded = standing.Since, standing.Actor, standing.Reason, &recorded
		if standing.Mode == admission.PassThrough {
			before := standing.RestoreMode.String()
			s.ModeBefore = &before
		}
	}
	return s
}

// poolLoad returns how many tasks of a pool run and wait, false if there is no such
// pool.
func (a *App) poolLoad(pool string) (running, queued int, known bool) {
	for _, p := range a.Pools() {
		if p.Name == pool {
			s := p.Gate.Snapshot(time.Now())
			return s.InFlight, s.Depth, true
		}
	}
	return 0, 0, false
}
