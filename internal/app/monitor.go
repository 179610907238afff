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
)

// samplesDir is where samples are kept, in the data directory.
const samplesDir = "samples"

// monitor is the part of an App that watches and tells: samples become values,
// values incidents, incidents messages.
type monitor struct {
	log        *slog.Logger
	samples    *tsdb.DB
	engine     *engine.Engine
	notifiers  notifiers
	dispatcher *alerts.Dispatcher            // nil when there is nobody to tell
	heartbeat  *alerts.Heartbeat             // nil when nobody waits for one
	teardown   []func(context.Context) error // last in, first out
}

// monitorMetrics are registered when an App is built, so that they are there from
// the start.
type monitorMetrics struct {
	engine *engine.Metrics
	alerts *alerts.Metrics
}

func newMonitorMetrics(reg prometheus.Registerer) (m monitorMetrics, err error) {
	if m.engine, err = engine.NewMetrics(reg); err != nil {
		return m, err
	}
	m.alerts, err = alerts.NewMetrics(reg)
	return m, err
}

// startMonitor opens the samples and begins to evaluate rules and to deliver. What
// it has begun, after an error too, ends with stopMonitor.
func (a *App) startMonitor(rules []engine.Rule) (err error) {
	w := &monitor{log: a.log.With("component", "watch"), notifiers: a.notifiers}
	a.monitor = w
	clock := monotonicClock()
	o := tsdb.Options{
		Interval: a.timeScale.Interval(a.cfg.Rules.Interval), Retention: a.cfg.Retention.Samples, Gatherer: a.registry,
		Registerer: a.registry, Clock: clock, Log: w.log,
	}
	if !a.ephemeral {
		o.Dir = filepath.Join(a.cfg.DataDir, samplesDir)
	}
	if w.samples, err = tsdb.Open(o); err != nil {
		return fmt.Errorf("samples: %w", err)
	}
	w.onStop(func(context.Context) error { return w.samples.Close() })
	w.runUntilStop(w.samples.Run)
	if err := a.startDispatcher(w); err != nil {
		return err
	}
	if err := a.startEngine(w, rules, clock); err != nil {
		return err
	}
	w.runUntilStop(engine.NewSLORecorder(a.store, a.sloTotals, a.cfg.Retention.History, w.log).Run)
	return a.startHeartbeat(w)
}

// sloTotals returns the counts of the proxy as the engine records them.
func (a *App) sloTotals() map[string]engine.SLOTotals {
	totals := map[string]engine.SLOTotals{}
	for pool, c := range a.metrics.SLO() {
		totals[pool] = engine.SLOTotals(c)
	}
	return totals
}

// startEngine begins to evaluate rules.
func (a *App) startEngine(w *monitor, rules []engine.Rule, clock func() time.Time) (err error) {
	w.engine, err = engine.New(engine.Options{
		Config: a.timeScale.Config(engine.DefaultConfig(), a.cfg.Rules.Interval), Rules: rules, Signals: w.samples, Journal: a.store.EngineJournal(a.notificationPlanner(w)),
		Log: w.log, Metrics: a.monitorMetrics.engine, Clock: clock,
		OnStep:    func(engine.Batch) { a.autoRollback.Wake() },
		OnSaved:   func(engine.Batch) { w.wakeDispatcher() },
		OnUnsaved: func(b engine.Batch) { w.dispatchUnrecorded(a.notificationPlanner(w)(b, alerts.TxView{})) },
	})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := w.engine.Start(context.Background()); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	w.onStop(w.engine.Stop)
	a.control.SetEngine(w.engine)
	w.runUntilStop(func(ctx context.Context) { a.autoRollback.Run(ctx, w.engine) })
	return nil
}

// notificationPlanner says what is to be sent about a batch: nothing if there is nobody to tell.
func (a *App) notificationPlanner(w *monitor) alerts.PlanFunc {
	if !w.notifiers.enabled() {
		return func(engine.Batch, alerts.TxView) []alerts.Delivery { return nil }
	}
	planner := alerts.Planner{
		Routes: w.notifiers.routes,
		Mode: func(pool string) (string, time.Time) {
			s, ok := a.modes.State(pool)
			if !ok {
				return "", time.Time{}
			}
			return s.Mode.String(), s.Since
		},
		Load:  a.poolLoad,
		NewID: newID,
	}
	if a.sandbox.speed > 0 {
		return alerts.DrillPlan(planner.Plan, a.sandbox.speed)
	}
	return planner.Plan
}

func (a *App) startDispatcher(w *monitor) (err error) {
	if !w.notifiers.enabled() {
		w.log.Info("nobody is told about incidents: set slack in the settings")
		return nil
	}
	w.dispatcher, err = alerts.New(alerts.Options{
		Outbox: a.store.Outbox(), Notifiers: w.notifiers.senders, Routes: w.notifiers.routes,
		Metrics: a.monitorMetrics.alerts, Log: w.log, NewID: newID,
		OnUndeliverable: func(d alerts.Delivery) {
			w.log.Error("a message will not arrive", "incident", d.Incident, "destination", d.Destination, "reason", d.Reason)
		},
	})
	if err != nil {
		return fmt.Errorf("deliveries: %w", err)
	}
	if bot := w.notifiers.bot; bot != nil {
		w.onStop(func(context.Context) error {
			bot.Close()
			return nil
		})
	}
	w.dispatcher.Start()
	w.onStop(w.dispatcher.Stop)
	return nil
}

func (a *App) startHeartbeat(w *monitor) (err error) {
	if a.cfg.Heartbeat.URL.Empty() {
		return nil
	}
	w.heartbeat, err = alerts.NewHeartbeat(alerts.HeartbeatOptions{
		URL: a.cfg.Heartbeat.URL.Reveal(), Interval: a.cfg.Heartbeat.Interval,
		Healthy:    func() error { return w.samples.Health().Err },
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

func (w *monitor) wakeDispatcher() {
	if w.dispatcher != nil {
		w.dispatcher.Wake()
	}
}

func (w *monitor) dispatchUnrecorded(ds []alerts.Delivery) {
	if w.dispatcher != nil {
		w.dispatcher.SubmitUnrecorded(ds)
	}
}

func (w *monitor) onStop(f func(context.Context) error) { w.teardown = append(w.teardown, f) }

// runUntilStop runs f until stopMonitor.
func (w *monitor) runUntilStop(f func(context.Context)) {
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

// stopMonitor ends what startMonitor began, last first.
func (a *App) stopMonitor(ctx context.Context) error {
	if a.monitor == nil {
		return nil
	}
	var err error
	for i := len(a.monitor.teardown) - 1; i >= 0; i-- {
		err = errors.Join(err, a.monitor.teardown[i](ctx))
	}
	a.monitor.teardown = nil
	return err
}

// monotonicClock returns the wall clock of now plus monotonic time: a step of the
// wall clock does not move it.
func monotonicClock() func() time.Time {
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
