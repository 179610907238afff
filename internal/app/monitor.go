package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"headgate/alerts"
	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/internal/config"
	"headgate/internal/lifecycle"
)

// samplesDir is where samples are kept, in the data directory.
const samplesDir = "samples"

// monitor turns samples into values, values into incidents, and incidents into messages.
type monitor struct {
	log        *slog.Logger
	samples    *tsdb.DB
	engine     *engine.Engine
	planner    alerts.PlanFunc    // what is to be sent about a batch of the engine
	dispatcher *alerts.Dispatcher // nil without notifiers
	teardown   lifecycle.Stack
}

// startMonitor opens the samples and begins to evaluate rules and to deliver. What it has begun, after an error too, ends
// with stopMonitor.
func (a *App) startMonitor() (err error) {
	if a.opts.withoutMonitoring {
		return nil
	}
	cfg, clock := a.config(), engine.MonotonicClock()
	m := &monitor{log: a.opts.component("monitor"), planner: a.notificationPlanner()}
	a.monitor = m
	o := tsdb.Options{
		Interval: a.opts.timeScale.Interval(cfg.Rules.Interval), Retention: cfg.Retention.Samples, Gatherer: a.metrics.registry,
		Registerer: a.metrics.registry, Clock: clock, Log: a.opts.component("samples"),
	}
	if !a.opts.ephemeral {
		o.Dir = filepath.Join(cfg.DataDir, samplesDir)
	}
	if m.samples, err = tsdb.Open(o); err != nil {
		return fmt.Errorf("samples: %w", err)
	}
	m.teardown.Push("samples", func(context.Context) error { return m.samples.Close() })
	m.run("sampling", m.samples.Run)
	if err := a.startDispatcher(m); err != nil {
		return err
	}
	if err := a.startEngine(m, cfg, clock); err != nil {
		return err
	}
	m.run("SLO counts", engine.NewSLORecorder(a.record.store, a.metrics.sloTotals, cfg.Retention.History, m.log).Run)
	return a.startHeartbeat(m, cfg)
}

// run calls f in a goroutine until stopMonitor.
func (m *monitor) run(name string, f func(context.Context)) {
	task := lifecycle.Go(f)
	m.teardown.Push(name, func(ctx context.Context) error { return task.Stop(context.WithoutCancel(ctx)) })
}

// startEngine begins to evaluate rules.
func (a *App) startEngine(m *monitor, cfg *config.Config, clock func() time.Time) (err error) {
	m.engine, err = engine.New(engine.Options{
		Config: a.opts.timeScale.Config(engine.DefaultConfig(), cfg.Rules.Interval), Rules: a.current.Load().rules,
		Signals: m.samples, Journal: a.record.store.EngineJournal(m.planner), Log: a.opts.component("engine"),
		Metrics: a.metrics.engine, Clock: clock,
		OnStep:    func(engine.Batch) { a.record.autoRollback.Wake() },
		OnSaved:   func(engine.Batch) { m.dispatcher.Wake() },
		OnUnsaved: func(b engine.Batch) { m.dispatcher.SubmitUnrecorded(m.planner(b, alerts.TxView{})) },
	})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := m.engine.Start(context.Background()); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	m.teardown.Push("engine", m.engine.Stop)
	a.record.control.SetEngine(m.engine)
	m.run("automatic rollback", func(ctx context.Context) { a.record.autoRollback.Run(ctx, m.engine) })
	return nil
}

// notificationPlanner returns what plans the messages about a batch: none without notifiers.
func (a *App) notificationPlanner() alerts.PlanFunc {
	if !a.notifiers.Enabled() {
		return func(engine.Batch, alerts.TxView) []alerts.Delivery { return nil }
	}
	planner := alerts.Planner{
		Routes: a.notifiers.Routes,
		Mode: func(pool string) (string, time.Time) {
			s, ok := a.record.modes.State(pool)
			if !ok {
				return "", time.Time{}
			}
			return s.Mode.String(), s.Since
		},
		Load:  a.poolLoad,
		NewID: newID,
	}
	if a.opts.sandbox.speed > 0 {
		return alerts.DrillPlan(planner.Plan, a.opts.sandbox.speed)
	}
	return planner.Plan
}

// poolLoad returns how many tasks of a pool run and wait, false if there is no such pool.
func (a *App) poolLoad(pool string) (running, queued int, known bool) {
	for _, p := range a.Pools() {
		if p.Name == pool {
			s := p.Gate.Snapshot(time.Now())
			return s.InFlight, s.Depth, true
		}
	}
	return 0, 0, false
}

func (a *App) startDispatcher(m *monitor) (err error) {
	if !a.notifiers.Enabled() {
		m.log.Info("no notifications configured: set slack in the settings")
		return nil
	}
	m.dispatcher, err = alerts.New(alerts.Options{
		Outbox: a.record.store.Outbox(), Notifiers: a.notifiers.Senders, Routes: a.notifiers.Routes,
		Metrics: a.metrics.alerts, Log: m.log, NewID: newID,
	})
	if err != nil {
		return fmt.Errorf("deliveries: %w", err)
	}
	if bot := a.notifiers.Bot; bot != nil {
		m.teardown.Push("Slack", func(context.Context) error {
			bot.Close()
			return nil
		})
	}
	m.dispatcher.Start()
	m.teardown.Push("deliveries", m.dispatcher.Stop)
	return nil
}

func (a *App) startHeartbeat(m *monitor, cfg *config.Config) error {
	if cfg.Heartbeat.URL.Empty() {
		return nil
	}
	heartbeat, err := alerts.NewHeartbeat(alerts.HeartbeatOptions{
		URL: cfg.Heartbeat.URL.Reveal(), Interval: cfg.Heartbeat.Interval,
		Healthy:    func() error { return m.samples.Health().Err },
		Registerer: a.metrics.registry, Log: m.log,
	})
	if err != nil {
		return cfg.At("heartbeat.url", err)
	}
	m.run("heartbeat", heartbeat.Run)
	return nil
}

// stopMonitor ends what startMonitor began, last first.
func (a *App) stopMonitor(ctx context.Context) error {
	if a.monitor == nil {
		return nil
	}
	return a.monitor.teardown.Stop(ctx)
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
