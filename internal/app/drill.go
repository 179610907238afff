package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/runbooks/drill"
)

// rehearsals are the part of an App that rehearses: what is due, what runs, what came of
// it.
type rehearsals struct {
	app       *App
	log       *slog.Logger
	store     *sqlite.Drills
	runner    *drill.Runner
	scheduler *drill.Scheduler
	stop      context.CancelFunc // of the scheduler
	stopped   chan struct{}
}

// drillMetrics count what came of drills.
type drillMetrics struct {
	runs *prometheus.CounterVec
	pass *prometheus.GaugeVec
	due  *prometheus.GaugeVec // when the schedule first came
	// period is there for drills with a schedule.
	period *prometheus.GaugeVec
}

func newDrillMetrics(reg prometheus.Registerer) (*drillMetrics, error) {
	m := &drillMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_drill_runs_total", Help: "Runs of drills that have ended, by their verdict.",
		}, []string{"drill", "verdict"}),
		pass: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "headgate_drill_last_pass_timestamp_seconds", Help: "When the latest run of the drill that passed has ended; not there before.",
		}, []string{"drill"}),
		due: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "headgate_drill_first_due_timestamp_seconds", Help: "When the schedule of the drill was first seen to come, whatever came of it; not there before.",
		}, []string{"drill"}),
		period: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "headgate_drill_period_seconds", Help: "The time between two due times of the drill; not there without a schedule.",
		}, []string{"drill"}),
	}
	return m, errors.Join(reg.Register(m.runs), reg.Register(m.pass), reg.Register(m.due), reg.Register(m.period))
}

// know makes the counters of drills be there from the start.
func (m *drillMetrics) know(specs []drill.Spec) {
	m.schedules(specs, time.Now())
	for _, s := range specs {
		for _, v := range drill.Verdicts() {
			m.runs.WithLabelValues(s.ID, string(v))
		}
	}
}

func (m *drillMetrics) ended(r drill.Run) {
	m.runs.WithLabelValues(r.Drill, string(r.Verdict)).Inc()
	if r.Verdict == drill.Passed {
		m.pass.WithLabelValues(r.Drill).Set(float64(r.Ended.UnixMilli()) / 1000)
	}
}

// startDrills closes what a process before has left, and begins to look for drills
// that are due.
func (a *App) startDrills() (err error) {
	d := &rehearsals{app: a, log: a.log.With("component", "drills"), store: a.store.Drills(), stopped: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	left, err := d.store.Interrupt(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("drills: %w", err)
	}
	for _, r := range left {
		d.log.Warn("a drill was interrupted: the process ended under it", "drill", r.Name, "run", r.ID)
		a.drillMetrics.ended(r)
		d.tell(r)
	}
	opener := &twins{settings: a.settings, version: a.version}
	if !a.ephemeral {
		if err := sweepTwins(a.cfg.DataDir); err != nil {
			return fmt.Errorf("drills: remove what a twin has left: %w", err)
		}
		opener.dir = filepath.Join(a.cfg.DataDir, twinsDir)
	}
	d.runner, err = drill.New(drill.Options{
		Store: d.store, Opener: stages{opener, a}, Production: &production{app: a}, Version: a.version, Log: d.log, Ended: d.ended,
	})
	if err != nil {
		return fmt.Errorf("drills: %w", err)
	}
	a.drillMetrics.know(a.specs())
	d.remember(ctx)
	d.scheduler = drill.NewScheduler(drill.SchedulerOptions{
		Specs: a.specs, Dues: d.store, Noter: d, Launcher: d, NewID: newID, Version: a.version, Log: d.log,
	})
	run, stop := context.WithCancel(context.Background())
	d.stop = stop
	go func() {
		defer close(d.stopped)
		d.scheduler.Run(run)
	}()
	a.drills = d
	return nil
}

// drillTime is how long a stop waits for a drill to be taken down.
const drillTime = 8 * time.Second

// stopDrills begins none any more, and aborts the one that runs. It comes before all
// else: a fault must not outlive the wish to go down.
func (a *App) stopDrills(ctx context.Context) error {
	if a.drills == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drillTime)
	defer cancel()
	a.drills.stop()
	err := a.drills.runner.Close(ctx)
	<-a.drills.stopped
	return err
}

// settings are those of now.
func (a *App) settings() *config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg
}

// specs are the drills of now.
func (a *App) specs() []drill.Spec {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.drillSpecs
}

// Launch implements drill.Launcher.
func (d *rehearsals) Launch(ctx context.Context, s drill.Spec, t drill.Trigger, scheduled time.Time) error {
	_, err := d.runner.Start(ctx, drill.Request{Spec: s, Trigger: t, Actor: "schedule", Scheduled: scheduled})
	return err
}

// Note implements drill.Noter. What was not run counts as what was.
func (d *rehearsals) Note(ctx context.Context, r drill.Run) error {
	err := d.store.Note(ctx, r)
	if err == nil {
		d.app.drillMetrics.ended(r)
		d.firstDue(ctx)
		if r.Reason != drill.ErrFrozen.Error() { // whoever froze them knows
			d.tell(r)
		}
	}
	return err
}

// ended hears of every run that has ended. Who waits for its turn has it now.
func (d *rehearsals) ended(r drill.Run) {
	d.app.drillMetrics.ended(r)
	d.firstDue(context.Background())
	d.scheduler.Kick()
	d.tell(r)
}

// rehearses says whether an App has drills: one that is itself part of a drill, or
// of a demo, has none.
func (a *App) rehearses() bool { return a.double == nil && !a.unwatched && a.pace.unpaced() }
