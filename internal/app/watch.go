package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"headgate/alerts"
	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/runbooks/control"
)

// samplesDir is where samples are kept, in the data directory.
const samplesDir = "samples"

// watch is the part of an App that watches and tells: samples become values,
// values incidents, incidents messages.
type watch struct {
	log       *slog.Logger
	samples   *tsdb.DB
	engine    *engine.Engine
	telling   telling
	deliverer *alerts.Deliverer // nil when there is nobody to tell
	heartbeat *alerts.Heartbeat // nil when nobody waits for one
	keeping   *keeper
	stops     []func(context.Context) error // last in, first out
}

// watchMetrics are registered when an App is built, so that they are there from
// the start.
type watchMetrics struct {
	engine *engine.Metrics
	alerts *alerts.Metrics
}

func newWatchMetrics(reg prometheus.Registerer) (m watchMetrics, err error) {
	if m.engine, err = engine.NewMetrics(reg); err != nil {
		return m, err
	}
	m.alerts, err = alerts.NewMetrics(reg)
	return m, err
}

// startWatch opens the samples and begins to evaluate rules and to deliver. What
// it has begun, after an error too, ends with stopWatch.
func (a *App) startWatch(rules []engine.Rule) (err error) {
	w := &watch{log: a.log.With("component", "watch"), telling: a.telling}
	a.watch = w
	clock := steadyClock()
	o := tsdb.Options{
		Interval: a.pace.interval(a.cfg.Rules.Interval), Retention: a.cfg.Retention.Samples, Gatherer: a.registry,
		Registerer: a.registry, Clock: clock, Log: w.log,
	}
	if !a.ephemeral {
		o.Dir = filepath.Join(a.cfg.DataDir, samplesDir)
	}
	if w.samples, err = tsdb.Open(o); err != nil {
		return fmt.Errorf("samples: %w", err)
	}
	w.onStop(func(context.Context) error { return w.samples.Close() })
	w.run(w.samples.Run)
	if err := a.startDeliverer(w); err != nil {
		return err
	}
	if err := a.startEngine(w, rules, clock); err != nil {
		return err
	}
	w.keeping = newKeeper(a.store, a.metrics, a.cfg.Retention.History, w.log)
	w.run(w.keeping.run)
	return a.startHeartbeat(w)
}

// startEngine begins to evaluate rules.
func (a *App) startEngine(w *watch, rules []engine.Rule, clock func() time.Time) (err error) {
	w.engine, err = engine.New(engine.Options{
		Config: a.pace.config(engine.DefaultConfig(), a.cfg.Rules.Interval), Rules: rules, Signals: w.samples, Journal: a.store.EngineJournal(a.plan(w)),
		Log: w.log, Metrics: a.watchMetrics.engine, Clock: clock,
		Stepped:    func(engine.Batch) { a.guard.Kick() },
		Recorded:   func(engine.Batch) { w.kick() },
		Unrecorded: func(b engine.Batch) { w.unrecorded(a.plan(w)(b, alerts.Known{})) },
	})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := w.engine.Start(context.Background()); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	w.onStop(w.engine.Stop)
	a.actions = control.NewRegistry(a.modes, a.pauses, told{w.engine, w.log}, a.auditor)
	w.run(func(ctx context.Context) { a.guard.Run(ctx, w.engine) })
	return nil
}

// plan says what is to be sent about a batch: nothing if there is nobody to tell.
func (a *App) plan(w *watch) alerts.PlanFunc {
	if !w.telling.anybody() {
		return func(engine.Batch, alerts.Known) []alerts.Delivery { return nil }
	}
	planner := alerts.Planner{
		Routes: w.telling.routes,
		Mode: func(pool string) (string, time.Time) {
			s, ok := a.modes.Standing(pool)
			if !ok {
				return "", time.Time{}
			}
			return s.Mode.String(), s.Since
		},
		Load:  a.load,
		NewID: newID,
	}
	return a.double.planned(planner.Plan)
}

func (a *App) startDeliverer(w *watch) (err error) {
	if !w.telling.anybody() {
		w.log.Info("nobody is told about incidents: set slack in the settings")
		return nil
	}
	w.deliverer, err = alerts.New(alerts.Options{
		Outbox: a.store.Outbox(), Senders: w.telling.senders, Routes: w.telling.routes,
		Metrics: a.watchMetrics.alerts, Log: w.log, NewID: newID,
		OnStuck: func(d alerts.Delivery) {
			w.log.Error("a message will not arrive", "incident", d.Incident, "destination", d.Destination, "reason", d.Reason)
		},
	})
	if err != nil {
		return fmt.Errorf("deliveries: %w", err)
	}
	if bot := w.telling.bot; bot != nil {
		w.onStop(func(context.Context) error {
			bot.Close()
			return nil
		})
	}
	w.deliverer.Start()
	w.onStop(w.deliverer.Stop)
	return nil
}

func (a *App) startHeartbeat(w *watch) (err error) {
	if a.cfg.Heartbeat.URL.Empty() {
		return nil
	}
	w.heartbeat, err = alerts.NewHeartbeat(alerts.HeartbeatOptions{
		URL: a.cfg.Heartbeat.URL.Reveal(), Interval: a.cfg.Heartbeat.Interval,
		Well:       func() error { return w.samples.Health().Err },
		Registerer: a.registry, Log: w.log,
	})
	if err != nil {
		return a.cfg.At("heartbeat.url", err)
	}
	w.heartbeat.Start()
	w.onStop(func(context.Context) error {
		w.heartbeat.Stop()
		return nil
	})
	return nil
}

func (w *watch) kick() {
	if w.deliverer != nil {
		w.deliverer.Kick()
	}
}

func (w *watch) unrecorded(ds []alerts.Delivery) {
	if w.deliverer != nil {
		w.deliverer.Unrecorded(ds)
	}
}

func (w *watch) onStop(f func(context.Context) error) { w.stops = append(w.stops, f) }

// run runs f until stopWatch.
func (w *watch) run(f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	w.onStop(func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// stopWatch ends what startWatch began, last first.
func (a *App) stopWatch(ctx context.Context) error {
	if a.watch == nil {
		return nil
	}
	var err error
	for i := len(a.watch.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, a.watch.stops[i](ctx))
	}
	a.watch.stops = nil
	return err
}

// steadyClock returns the wall clock of now plus monotonic time: a step of the
// wall clock does not move it.
func steadyClock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Round(0).Add(time.Since(start)) }
}

func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // crypto/rand never fails on the systems that Go supports
		panic(err)
	}
	return id.String()
}
