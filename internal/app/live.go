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

// stages opens what a run works on.
type stages struct {
	twins *twins
	app   *App
}

// Open implements drill.Opener.
func (s stages) Open(ctx context.Context, r drill.Run) (drill.Stage, error) {
	if r.Spec.Target == drill.Live {
		return s.app.openLive(r)
	}
	return s.twins.Open(ctx, r)
}

// live is production itself, seen by a drill that puts faults on the way of a few of
// its tasks.
type live struct {
	*ways
	app     *App
	run     drill.Run
	pool    config.Pool
	book    *liveBook
	clock   *playClock
	touched atomic.Int64
}

func (a *App) openLive(r drill.Run) (drill.Stage, error) {
	cfg := a.settings()
	if !cfg.AllowLive {
		return nil, errors.New("live drills are not allowed: set allow_live: true in the settings")
	}
	pool, err := drillPool(cfg, r.Spec.Pool)
	if err != nil {
		return nil, err
	}
	faults, err := a.live.injector(pool.Name)
	if err != nil {
		return nil, err
	}
	clock := &playClock{speed: 1}
	l := &live{app: a, run: r, pool: pool, clock: clock}
	l.book = &liveBook{clock: clock, pool: pool.Name, only: len(cfg.Pools) == 1, mark: r.Spec.Marked}
	l.book.calls.clock, l.book.calls.befell = clock, func(task int) {
		l.touched.Add(1)
		l.book.strike(task)
	}
	l.ways = &ways{upstream: faults, speed: 1, scope: touching(r.Spec.Marked, &l.touched)}
	return l, nil
}

// Inject implements drill.Place. More of production than the drill says is never
// touched, nor more than a quarter.
func (l *live) Inject(ctx context.Context, way drill.Way, i drill.Injection, ttl time.Duration) (drill.Lease, error) {
	if most := min(l.run.Spec.Share, drill.MaxLiveShare); !l.run.Spec.Marked && i.Share > most {
		return nil, fmt.Errorf("a share of %v is more than the drill may touch, %v", i.Share, most)
	}
	return l.ways.Inject(ctx, way, i, ttl)
}

// Start implements drill.Scene: production has its own load. From now on it is
// looked at.
func (l *live) Start(context.Context) (time.Time, error) {
	zero := time.Now().Add(l.run.Spec.Scenario.Baseline)
	l.clock.zero.Store(&zero)
	return zero, l.app.live.begin(l.book)
}

// Look implements drill.Scene. What holds of a gate as a whole is only looked for
// when all of its tasks are seen.
func (l *live) Look(ctx context.Context) (drill.Evidence, error) {
	e := drill.Evidence{
		At: l.clock.at(time.Now()), Pool: l.pool.Name, SLO: l.pool.SLO.Turnaround, KeptRate: true,
		Befallen: map[drill.Way]int{drill.ToUpstream: int(l.touched.Load())},
	}
	if l.clock.zero.Load() == nil {
		return e, nil
	}
	if l.book.only && !l.run.Spec.Marked {
		e.Workers = l.pool.Workers
	}
	l.book.see(&e)
	incidents, _, err := l.app.store.Incidents(ctx, sqlite.IncidentFilter{Pool: l.pool.Name, Since: l.run.Started, Limit: sqlite.MaxLimit})
	if err != nil {
		return e, fmt.Errorf("incidents cannot be read: %w", err)
	}
	for _, i := range incidents {
		e.Incidents = append(e.Incidents, i.ID)
	}
	return e, nil
}

// Canary implements drill.Scene.
func (l *live) Canary(ctx context.Context) (time.Duration, error) { return canary(ctx) }

// Do implements drill.Place: a live drill has faults, and nothing else.
func (l *live) Do(_ context.Context, s drill.Step) (func(context.Context) error, error) {
	return nil, fmt.Errorf("step %.40q is for a twin: a live drill has faults only", string(s.Kind))
}

// Close implements drill.Stage.
func (l *live) Close(ctx context.Context) error {
	_, err := l.Clear(ctx)
	l.app.live.end(l.book)
	return err
}

// route sends the calls of pools the ways that drills need.
func (a *App) route(cfg *config.Config, pools []proxy.Pool) {
	switch {
	case a.double != nil:
		a.double.route(pools)
	case cfg.AllowLive:
		a.live.route(pools)
	}
}
