package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"headgate/engine"
	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/proxy/admission"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
)

// production is what drills must leave alone. It implements drill.Production.
type production struct {
	app *App

	mu       sync.Mutex
	run      string // whose beginning the counts are of
	baseline trafficSnapshot
}

// trafficSnapshot are how production stood at a moment.
type trafficSnapshot struct {
	sandbox.TrafficCounts
	proxyArrivals float64 // as the proxy counts them
}

// Ready implements drill.Production.
func (p *production) Ready(ctx context.Context, r drill.Run) error {
	a := p.app
	if a.draining.Load() {
		return &drill.StopError{Reason: "headgate is going down"}
	}
	if _, err := a.drillPool(r.Spec); err != nil {
		return &drill.StopError{Reason: err.Error()}
	}
	pool, err := findPool(a.currentConfig(), r.Spec.Pool)
	if err != nil {
		return &drill.StopError{Reason: err.Error()}
	}
	if err := p.checkOpenPages(ctx, nil); err != nil {
		return err
	}
	if s, ok := a.modes.State(pool.Name); ok && s.Mode == admission.PassThrough {
		return &drill.StopError{Reason: fmt.Sprintf("pool %s is in pass-through since %s, by %s", pool.Name, s.Since.UTC().Format(time.RFC3339), s.Actor), Mode: true}
	}
	if err := p.checkBudget(ctx, pool); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run, p.baseline = r.ID, p.snapshot()
	return nil
}

// minBudgetTasks is how many tasks a window needs for its budget to mean something.
const minBudgetTasks = 100

// checkBudget refuses drills while the promise to users is broken.
func (p *production) checkBudget(ctx context.Context, pool config.Pool) error {
	good, bad, err := p.app.store.SLO(ctx, pool.Name, time.Now().Add(-pool.SLO.Window))
	if err != nil {
		return fmt.Errorf("the error budget of pool %s cannot be read: %w", pool.Name, err)
	}
	all := good + bad
	if all < minBudgetTasks || float64(bad) <= (1-pool.SLO.Objective)*float64(all) {
		return nil
	}
	return &drill.StopError{
		Reason: fmt.Sprintf("no error budget is left in pool %s: %d of %d tasks were bad, of at most %.3g in 100", pool.Name, bad, all, 100*(1-pool.SLO.Objective)),
		Budget: true,
	}
}

// checkOpenPages finds a page that is open, but for those that caused says the drill did.
func (p *production) checkOpenPages(ctx context.Context, caused func(engine.Incident) bool) error {
	open, _, err := p.app.store.Incidents(ctx, sqlite.IncidentFilter{Open: true, Limit: sqlite.MaxLimit})
	if err != nil {
		return fmt.Errorf("open incidents cannot be read: %w", err)
	}
	for _, i := range open {
		if i.Level != engine.LevelPage || caused != nil && caused(i) {
			continue
		}
		where := "headgate itself"
		if i.Key.Pool != "" {
			where = "pool " + i.Key.Pool
		}
		return &drill.StopError{Reason: fmt.Sprintf("a page is open: %s of %s (incident %s)", i.Key.Rule, where, i.ID), Page: true}
	}
	return nil
}

// Check implements drill.Production. A twin's own pages are in a record of its own;
// those of a live run are of its pool, and younger than it.
func (p *production) Check(ctx context.Context, r drill.Run) error {
	a := p.app
	if r.Spec.Target != drill.Live {
		return p.checkOpenPages(ctx, nil)
	}
	pool, err := findPool(a.currentConfig(), r.Spec.Pool)
	if err != nil {
		return &drill.StopError{Reason: err.Error()}
	}
	if s, ok := a.modes.State(pool.Name); ok && s.Since.After(r.Started) {
		return &drill.StopError{Reason: fmt.Sprintf("the mode of pool %s was changed to %s by %s", pool.Name, s.Mode, s.Actor), Mode: true}
	}
	return p.checkOpenPages(ctx, func(i engine.Incident) bool { return i.Key.Pool == pool.Name && i.Opened.After(r.Started) })
}

// Drift implements drill.Production. What the proxy counts must have come to its
// door, none of it from a drill, and no message of production may say DRILL.
func (p *production) Drift(_ context.Context, r drill.Run) (drill.Reading, error) {
	p.mu.Lock()
	began, run := p.baseline, p.run
	p.mu.Unlock()
	if run != r.ID {
		return drill.Reading{Reason: "nobody has looked at production before the drill"}, nil
	}
	if r.Spec.Target == drill.Live {
		return p.app.traffic.ScopeViolations(r), nil
	}
	now := p.snapshot()
	arrivals := now.proxyArrivals - began.proxyArrivals
	came := float64(now.Arrived - began.Arrived + began.InFlight)
	marked := float64(now.DrillTagged - began.DrillTagged)
	return drill.Reading{
		Measured: true, Value: marked + max(0, arrivals-came), Samples: int(arrivals), Source: "production's door",
		Reason: fmt.Sprintf("%.0f of the drill's tasks came to production; production counted %.0f arrivals, and %.0f requests came", marked, arrivals, came),
	}, nil
}

// snapshot counts. What comes at the same moment counts as having come.
func (p *production) snapshot() trafficSnapshot {
	proxyArrivals := p.proxyArrivals() // first: what comes at the same moment counts as having come
	return trafficSnapshot{p.app.traffic.Counts(), proxyArrivals}
}

// proxyArrivals adds up what the proxy has counted.
func (p *production) proxyArrivals() (sum float64) {
	families, err := p.app.registry.Gather()
	if err != nil { // what could be gathered is there all the same
		p.app.log.Debug("not all metrics could be gathered", "error", err)
	}
	for _, f := range families {
		if f.GetName() != "headgate_arrivals_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
