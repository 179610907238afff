package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/proxy"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
	"headgate/runbooks/drill/sandbox"
	"headgate/runbooks/drill/schedule"
)

// drillService are the part of an App that rehearses: what is due, what runs, what came of
// it.
type drillService struct {
	app       *App
	log       *slog.Logger
	store     *sqlite.Drills
	runner    *runner.Runner
	scheduler *schedule.Scheduler
	stop      context.CancelFunc // of the scheduler
	stopped   chan struct{}
}

// drillMetrics count what came of drills.
type drillMetrics struct {
	runs     *prometheus.CounterVec
	lastPass *prometheus.GaugeVec
	firstDue *prometheus.GaugeVec // when the schedule first came
	// period is there for drills with a schedule.
	period *prometheus.GaugeVec
}

func newDrillMetrics(reg prometheus.Registerer) (*drillMetrics, error) {
	m := &drillMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_drill_runs_total", Help: "Runs of drills that have ended, by their verdict.",
		}, []string{"drill", "verdict"}),
		lastPass: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "headgate_drill_last_pass_timestamp_seconds", Help: "When the latest run of the drill that passed has ended; not there before.",
		}, []string{"drill"}),
		firstDue: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "headgate_drill_first_due_timestamp_seconds", Help: "When the schedule of the drill was first seen to come, whatever came of it; not there before.",
		}, []string{"drill"}),
		period: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "headgate_drill_period_seconds", Help: "The time between two due times of the drill; not there without a schedule.",
		}, []string{"drill"}),
	}
	return m, errors.Join(reg.Register(m.runs), reg.Register(m.lastPass), reg.Register(m.firstDue), reg.Register(m.period))
}

// initSeries makes the counters of drills be there from the start.
func (m *drillMetrics) initSeries(specs []drill.Spec) {
	m.setPeriods(specs, time.Now())
	for _, s := range specs {
		for _, v := range drill.Verdicts() {
			m.runs.WithLabelValues(s.ID, string(v))
		}
	}
}

func (m *drillMetrics) observe(r drill.Run) {
	m.runs.WithLabelValues(r.Drill, string(r.Verdict)).Inc()
	if r.Verdict == drill.Passed {
		m.lastPass.WithLabelValues(r.Drill).Set(float64(r.Ended.UnixMilli()) / 1000)
	}
}

// startDrills closes what a process before has left, and begins to look for drills
// that are due.
func (a *App) startDrills() (err error) {
	d := &drillService{app: a, log: a.log.With("component", "drills"), store: a.store.Drills(), stopped: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), storeOpenTimeout)
	defer cancel()
	left, err := d.store.CloseInterrupted(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("drills: %w", err)
	}
	for _, r := range left {
		d.log.Warn("a drill was interrupted: the process ended under it", "drill", r.Name, "run", r.ID)
		a.drillMetrics.observe(r)
		d.notifyVerdict(r)
	}
	environments := a.drillEnvironments()
	if err := environments.RemoveStale(); err != nil {
		return fmt.Errorf("drills: remove what a twin has left: %w", err)
	}
	d.runner, err = runner.New(runner.Options{
		Store: d.store, Environments: environments, Production: &production{app: a}, Version: a.version, Log: d.log, OnEnded: d.runEnded,
	})
	if err != nil {
		return fmt.Errorf("drills: %w", err)
	}
	a.drillMetrics.initSeries(a.currentDrillSpecs())
	d.restoreLastPasses(ctx)
	d.scheduler = schedule.NewScheduler(schedule.SchedulerOptions{
		Specs: a.currentDrillSpecs, DueTimes: d.store, Recorder: d, Launcher: d, NewID: newID, Version: a.version, Log: d.log,
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

// sandboxesDir is where twins keep their records while they live, in the data directory.
const sandboxesDir = "drills"

// drillEnvironments builds the environments of drills from production's settings.
func (a *App) drillEnvironments() *sandbox.Environments {
	e := &sandbox.Environments{
		Pool: a.drillPool, NewSystem: a.newSandboxSystem, Traffic: &a.traffic,
		Messages: func() sandbox.SlackChannel { return slackChannel(a.currentConfig().Slack) },
		Incidents: func(ctx context.Context, pool string, since time.Time) ([]string, error) {
			return a.incidentIDs(ctx, sqlite.IncidentFilter{Pool: pool, Since: since, Limit: sqlite.MaxLimit})
		},
	}
	if !a.ephemeral {
		e.Dir = filepath.Join(a.cfg.DataDir, sandboxesDir)
	}
	return e
}

// slackChannel is where the messages of drills go.
func slackChannel(s config.Slack) sandbox.SlackChannel {
	return sandbox.SlackChannel{Token: s.BotToken.Reveal(), APIURL: s.APIURL, Channel: s.Channels.Drills}
}

// drillPool returns the pool that a drill is about.
func (a *App) drillPool(s drill.Spec) (sandbox.Pool, error) {
	cfg := a.currentConfig()
	pool, err := findPool(cfg, s.Pool)
	if err != nil {
		return sandbox.Pool{}, err
	}
	if s.Target == drill.Live && !cfg.AllowLive {
		return sandbox.Pool{}, errors.New("live drills are not allowed: set allow_live: true in the settings")
	}
	p := sandbox.Pool{Name: pool.Name, Workers: pool.Workers, SLO: pool.SLO.Turnaround, Only: len(cfg.Pools) == 1}
	if pool.Admission.Policy == "threshold" {
		p.MaxQueueAge, p.DepthMultiple = pool.Admission.MaxQueueAge, pool.Admission.DepthMultiple
	}
	return p, nil
}

// setTransports puts the transports of drills into pools.
func (a *App) setTransports(cfg *config.Config, pools []proxy.Pool) {
	for i := range pools {
		switch name := pools[i].Name; {
		case a.sandbox.upstream != nil:
			pools[i].Transport = a.sandbox.upstream
		case cfg.AllowLive:
			pools[i].WrapTransport = func(next http.RoundTripper) http.RoundTripper { return a.traffic.Transport(name, next) }
		}
	}
}

// drillStopTimeout is how long a stop waits for a drill to be taken down.
const drillStopTimeout = 8 * time.Second

// stopDrills begins none any more, and aborts the one that runs. It comes before all
// else: a fault must not outlive the wish to go down.
func (a *App) stopDrills(ctx context.Context) error {
	if a.drills == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drillStopTimeout)
	defer cancel()
	a.drills.stop()
	err := a.drills.runner.Close(ctx)
	<-a.drills.stopped
	return err
}

// currentConfig are those of now.
func (a *App) currentConfig() *config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg
}

// currentDrillSpecs are the drills of now.
func (a *App) currentDrillSpecs() []drill.Spec {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.drillSpecs
}

// Launch implements drill.Launcher.
func (d *drillService) Launch(ctx context.Context, s drill.Spec, t drill.Trigger, scheduled time.Time) error {
	_, err := d.runner.Start(ctx, runner.Request{Spec: s, Trigger: t, Actor: "schedule", Scheduled: scheduled})
	return err
}

// RecordNotRun implements drill.NotRunRecorder. What was not run counts as what was.
func (d *drillService) RecordNotRun(ctx context.Context, r drill.Run) error {
	err := d.store.RecordNotRun(ctx, r)
	if err == nil {
		d.app.drillMetrics.observe(r)
		d.updateFirstDue(ctx)
		if r.Reason != drill.ErrFrozen.Error() { // whoever froze them knows
			d.notifyVerdict(r)
		}
	}
	return err
}

// runEnded hears of every run that has ended. Who waits for its turn has it now.
func (d *drillService) runEnded(r drill.Run) {
	d.app.drillMetrics.observe(r)
	d.updateFirstDue(context.Background())
	d.scheduler.Wake()
	d.notifyVerdict(r)
}

// drillsEnabled says whether an App has drills: one that is itself part of a drill, or
// of a demo, has none.
func (a *App) drillsEnabled() bool {
	return a.sandbox.speed == 0 && !a.withoutMonitoring && a.timeScale.RealTime()
}
