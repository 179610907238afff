package app

import (
	"time"

	"headgate/runbooks/control"
	"headgate/web/api"
)

// Status returns the pools, in the order of the settings.
func (a *App) Status(now time.Time) api.Status {
	s := api.Status{Version: a.version}
	for _, p := range a.Pools() {
		if pool, ok := a.control.PoolStatus(now, p.Name); ok {
			a.addObserved(&pool, now, p)
			s.Pools = append(s.Pools, pool)
		}
	}
	return s
}

// addObserved adds what the proxy observed.
func (a *App) addObserved(s *control.PoolStatus, now time.Time, p Pool) {
	recent := a.metrics.Recent(p.Name, now)
	s.SLOS, s.Refused1m, s.Admitted1m = control.Seconds(p.SLO), recent.Rejected, max(recent.Arrivals-recent.Rejected-recent.Invalid, 0)
	if recent.Ended > 0 {
		p95 := control.Seconds(recent.P95)
		s.P95TurnaroundS = &p95
	}
	if use, known := a.metrics.EnvelopeUse(p.Name, now); known {
		s.EnvelopeUse = &use
	}
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
