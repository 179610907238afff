package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
)

// Production is what drills must leave alone. All fields must be set.
type Production struct {
	Draining func() bool
	// Pool returns the name of the pool that a drill is about; the error says why a drill cannot work on it.
	Pool func(drill.Spec) (name string, err error)
	// OpenIncidents returns the open incidents.
	OpenIncidents func(ctx context.Context) ([]engine.Incident, error)
	Mode          func(pool string) (control.ModeState, bool)
	Budget        func(ctx context.Context, pool string) (Budget, error)
	// Arrivals is the number of arrivals that the proxy has counted.
	Arrivals func() float64
	Traffic  *sandbox.Traffic

	mu       sync.Mutex
	run      string // for which baseline was taken
	baseline traffic
}

var _ drill.Production = (*Production)(nil)

// Budget is the error budget of a pool in its window.
type Budget struct {
	Good, Bad int64 // tasks
	Objective float64
}

// minBudgetTasks is how many tasks a window needs for its budget to mean something.
const minBudgetTasks = 100

func (b Budget) spent() bool {
	all := b.Good + b.Bad
	return all >= minBudgetTasks && float64(b.Bad) > (1-b.Objective)*float64(all)
}

func stopf(format string, args ...any) error {
	return &drill.StopError{Reason: fmt.Sprintf(format, args...)}
}

// traffic are counts of production at an instant.
type traffic struct {
	sandbox.TrafficCounts
	proxyArrivals float64
}

func (p *Production) traffic() traffic {
	arrivals := p.Arrivals() // first: a request in between must not count as drift
	return traffic{p.Traffic.Counts(), arrivals}
}

// Ready says whether a run may start.
func (p *Production) Ready(ctx context.Context, r drill.Run) error {
	if p.Draining() {
		return stopf("headgate is shutting down")
	}
	pool, err := p.Pool(r.Spec)
	if err != nil {
		return stopf("%v", err)
	}
	if err := p.checkOpenPages(ctx, nil); err != nil {
		return err
	}
	if s, ok := p.Mode(pool); ok && s.Mode == admission.PassThrough {
		return stopf("pool %s is in pass-through since %s, by %s", pool, s.Since.UTC().Format(time.RFC3339), s.Actor)
	}
	b, err := p.Budget(ctx, pool)
	if err != nil {
		return fmt.Errorf("the error budget of pool %s cannot be read: %w", pool, err)
	}
	if b.spent() {
		return stopf("no error budget is left in pool %s: %d of %d tasks were bad, of at most %.3g in 100",
			pool, b.Bad, b.Good+b.Bad, 100*(1-b.Objective))
	}
	if r.ID == "" {
		return nil // a dry run
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run, p.baseline = r.ID, p.traffic()
	return nil
}

// checkOpenPages finds an open page, except for those that caused says the drill did.
func (p *Production) checkOpenPages(ctx context.Context, caused func(engine.Incident) bool) error {
	open, err := p.OpenIncidents(ctx)
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
		return stopf("a page is open: %s of %s (incident %s)", i.Key.Rule, where, i.ID)
	}
	return nil
}

// Check says whether a run may continue. The pages of a twin are in the twin's own record; those that a live run causes
// are of its pool, and younger than it.
func (p *Production) Check(ctx context.Context, r drill.Run) error {
	if r.Spec.Target != drill.Live {
		return p.checkOpenPages(ctx, nil)
	}
	pool, err := p.Pool(r.Spec)
	if err != nil {
		return stopf("%v", err)
	}
	if s, ok := p.Mode(pool); ok && s.Since.After(r.Started) {
		return stopf("the mode of pool %s was changed to %s by %s", pool, s.Mode, s.Actor)
	}
	return p.checkOpenPages(ctx, func(i engine.Incident) bool { return i.Key.Pool == pool && i.Opened.After(r.Started) })
}

// Drift counts tasks of a twin in production: those with a header of drills, and arrivals that the proxy has counted
// and the ingress has not seen. For a live run it counts calls outside its scope.
func (p *Production) Drift(_ context.Context, r drill.Run) (drill.Reading, error) {
	p.mu.Lock()
	before, run := p.baseline, p.run
	p.mu.Unlock()
	if run != r.ID {
		return drill.Reading{Reason: "production was not observed before the drill"}, nil
	}
	if r.Spec.Target == drill.Live {
		return p.Traffic.ScopeViolations(r), nil
	}
	now := p.traffic()
	counted := now.proxyArrivals - before.proxyArrivals
	came := float64(now.Arrived - before.Arrived + before.InFlight)
	tagged := float64(now.DrillTagged - before.DrillTagged)
	return drill.Reading{
		Measured: true, Value: tagged + max(0, counted-came), Samples: int(counted), Source: "production's ingress",
		Reason: fmt.Sprintf("%.0f of the drill's tasks reached production; production counted %.0f arrivals of %.0f requests",
			tagged, counted, came),
	}, nil
}
