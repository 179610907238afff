package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/proxy"
	"headgate/runbooks/drill"
)

// environmentFactory opens what a run works on.
type environmentFactory struct {
	sandboxes *sandboxFactory
	app       *App
}

// Open implements drill.EnvironmentFactory.
func (s environmentFactory) Open(ctx context.Context, r drill.Run) (drill.Environment, error) {
	if r.Spec.Target == drill.Live {
		return s.app.openLiveEnvironment(r)
	}
	return s.sandboxes.Open(ctx, r)
}

// liveEnvironment is production itself, seen by a drill that puts faults on the way of a few of
// its tasks.
type liveEnvironment struct {
	*faultPoints
	app          *App
	run          drill.Run
	pool         config.Pool
	trace        *taskTrace
	clock        *scenarioClock
	touchedCalls atomic.Int64
}

func (a *App) openLiveEnvironment(r drill.Run) (drill.Environment, error) {
	cfg := a.currentConfig()
	if !cfg.AllowLive {
		return nil, errors.New("live drills are not allowed: set allow_live: true in the settings")
	}
	pool, err := findPool(cfg, r.Spec.Pool)
	if err != nil {
		return nil, err
	}
	faults, err := a.liveFaults.injector(pool.Name)
	if err != nil {
		return nil, err
	}
	clock := &scenarioClock{speed: 1}
	l := &liveEnvironment{app: a, run: r, pool: pool, clock: clock}
	l.trace = &taskTrace{clock: clock, pool: pool.Name, singlePool: len(cfg.Pools) == 1, markedOnly: r.Spec.Marked}
	l.trace.calls.clock, l.trace.calls.onFault = clock, func(task int) {
		l.touchedCalls.Add(1)
		l.trace.markFaulted(task)
	}
	l.faultPoints = &faultPoints{upstream: faults, speed: 1, scope: liveScope(r.Spec.Marked, &l.touchedCalls)}
	return l, nil
}

// Inject implements drill.Injector. More of production than the drill says is never
// touched, nor more than a quarter.
func (l *liveEnvironment) Inject(ctx context.Context, way drill.FaultTarget, i drill.Injection, ttl time.Duration) (drill.Lease, error) {
	if most := min(l.run.Spec.Share, drill.MaxLiveShare); !l.run.Spec.Marked && i.Share > most {
		return nil, fmt.Errorf("a share of %v is more than the drill may touch, %v", i.Share, most)
	}
	return l.faultPoints.Inject(ctx, way, i, ttl)
}

// Start implements drill.Workload: production has its own load. From now on it is
// looked at.
func (l *liveEnvironment) Start(context.Context) (time.Time, error) {
	zero := time.Now().Add(l.run.Spec.Scenario.Baseline)
	l.clock.zero.Store(&zero)
	return zero, l.app.liveFaults.attach(l.trace)
}

// Observe implements drill.Workload. What holds of a gate as a whole is only looked for
// when all of its tasks are seen.
func (l *liveEnvironment) Observe(ctx context.Context) (drill.Evidence, error) {
	e := drill.Evidence{
		At: l.clock.at(time.Now()), Pool: l.pool.Name, SLO: l.pool.SLO.Turnaround, KeptRate: true,
		FaultHits: map[drill.FaultTarget]int{drill.TargetUpstream: int(l.touchedCalls.Load())},
	}
	if l.clock.zero.Load() == nil {
		return e, nil
	}
	if l.trace.singlePool && !l.run.Spec.Marked {
		e.Workers = l.pool.Workers
	}
	l.trace.addTo(&e)
	incidents, _, err := l.app.store.Incidents(ctx, sqlite.IncidentFilter{Pool: l.pool.Name, Since: l.run.Started, Limit: sqlite.MaxLimit})
	if err != nil {
		return e, fmt.Errorf("incidents cannot be read: %w", err)
	}
	for _, i := range incidents {
		e.Incidents = append(e.Incidents, i.ID)
	}
	return e, nil
}

// Canary implements drill.Workload.
func (l *liveEnvironment) Canary(ctx context.Context) (time.Duration, error) { return runCanary(ctx) }

// RunStep implements drill.Injector: a live drill has faults, and nothing else.
func (l *liveEnvironment) RunStep(_ context.Context, s drill.Step) (func(context.Context) error, error) {
	return nil, fmt.Errorf("step %.40q is for a twin: a live drill has faults only", string(s.Kind))
}

// Close implements drill.Environment.
func (l *liveEnvironment) Close(ctx context.Context) error {
	_, err := l.Clear(ctx)
	l.app.liveFaults.detach(l.trace)
	return err
}

// setTransports sends the calls of pools the ways that drills need.
func (a *App) setTransports(cfg *config.Config, pools []proxy.Pool) {
	switch {
	case a.sandbox != nil:
		a.sandbox.setTransports(pools)
	case cfg.AllowLive:
		a.liveFaults.wrapPools(pools)
	}
}
