package app

import (
	"time"

	"headgate/proxy/admit"
	"headgate/web"
)

// Status implements web.Statuses.
func (a *App) Status(now time.Time) web.Status {
	s := web.Status{Version: a.version}
	for _, p := range a.Pools() {
		s.Pools = append(s.Pools, a.poolStatus(now, p))
	}
	return s
}

func (a *App) poolStatus(now time.Time, p Pool) web.PoolStatus {
	gate := p.Gate.Snapshot(now)
	overdue, drain := p.Gate.Overdue(now)
	recent := a.metrics.Recent(p.Name, now)
	s := web.PoolStatus{
		Name: p.Name, Mode: gate.Mode.String(), Policy: gate.Policy,
		Workers: gate.Workers, InFlight: gate.InFlight, QueueDepth: gate.Depth,
		QueueOldestAgeS: web.Seconds(gate.Oldest), Overdue: overdue, DrainS: web.Seconds(drain), Draining: gate.Draining,
		SLOS: web.Seconds(p.SLO), Refused1m: recent.TurnedAway, Admitted1m: max(recent.Arrivals-recent.TurnedAway-recent.Invalid, 0),
	}
	if recent.Ended > 0 {
		p95 := web.Seconds(recent.P95)
		s.P95TurnaroundS = &p95
	}
	if use, known := a.envelopeUse(now, p); known {
		s.EnvelopeUse = &use
	}
	s.Guard, s.Paused = a.guardStatus(now, p.Name), a.pauseStatus(now, p.Name)
	if standing, ok := a.modes.Standing(p.Name); ok {
		recorded := a.modes.Recorded(p.Name)
		s.ModeSince, s.ModeBy, s.ModeReason, s.ModeRecorded = standing.Since, standing.By, standing.Reason, &recorded
		if standing.Mode == admit.PassThrough {
			before := standing.Before.String()
			s.ModeBefore = &before
		}
	}
	return s
}

// load returns how many tasks of a pool run and wait, false if there is no such
// pool.
func (a *App) load(pool string) (running, queued int, known bool) {
	for _, p := range a.Pools() {
		if p.Name == pool {
			s := p.Gate.Snapshot(time.Now())
			return s.InFlight, s.Depth, true
		}
	}
	return 0, 0, false
}
