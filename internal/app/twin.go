package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"headgate/internal/config"
	"headgate/internal/modelstub"
	"headgate/internal/sqlite"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// sandboxesDir is where twins keep their records while they live, in the data directory.
// What a process has left there when it was killed goes at the next start.
const sandboxesDir = "drills"

// sandboxFactory opens a second App for each run, with what belongs around it.
type sandboxFactory struct {
	settings func() *config.Config // of the App that they are twins of
	dir      string                // empty: the system's, for what is temporary
	version  string
}

// sandbox is an App that stands in for another: its gate, rules, messages and record
// are made as production's are from the same settings, and share nothing with them.
type sandbox struct {
	*faultPoints
	run          drill.Run
	pool         config.Pool // of production
	serviceMin   time.Duration
	serviceMax   time.Duration
	serviceMean  time.Duration
	clock        *scenarioClock
	load         *generatedLoad
	calls        *callTrace
	slots        *endpointSlots
	slack        *slackTarget
	observations observations
	app          *App
	dir          string
	workers      int
	admin        *api.Client
	teardown     []func(context.Context) error // last in, first out
	closeOnce    sync.Once
	closed       chan struct{}
	closeErr     error
}

// Open implements drill.EnvironmentFactory.
func (t *sandboxFactory) Open(ctx context.Context, r drill.Run) (drill.Environment, error) {
	cfg := t.settings()
	w := &sandbox{run: r, clock: &scenarioClock{speed: r.Speed}, closed: make(chan struct{})}
	if err := w.build(cfg, t); err != nil {
		return nil, errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// build makes everything, from the far ends inwards.
func (w *sandbox) build(cfg *config.Config, t *sandboxFactory) (err error) {
	if w.pool, err = findPool(cfg, w.run.Spec.Pool); err != nil {
		return err
	}
	if w.load, err = newGeneratedLoad(w.run.Spec, w.pool.SLO.Turnaround, w.clock); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := w.makeDir(t.dir); err != nil {
		return err
	}
	if w.slack, err = newSlackTarget(cfg.Slack, w.run.Spec.Scenario.Seed); err != nil {
		return fmt.Errorf("stand-in for Slack: %w", err)
	}
	w.onStop(w.slack.close)
	address, err := w.openEndpoint()
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	return w.openApp(cfg, address, t.version)
}

func (w *sandbox) onStop(f func(context.Context) error) { w.teardown = append(w.teardown, f) }

func (w *sandbox) makeDir(parent string) (err error) {
	if parent != "" {
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return err
		}
	}
	if w.dir, err = os.MkdirTemp(parent, "twin-"); err != nil {
		return err
	}
	w.onStop(func(context.Context) error { return os.RemoveAll(w.dir) })
	return nil
}

// openEndpoint makes the endpoint, with as many slots as the gate has workers, and
// the way there.
func (w *sandbox) openEndpoint() (address string, err error) {
	service, err := modelstub.ParseService(w.run.Spec.Scenario.Service)
	if err != nil {
		return "", err
	}
	w.serviceMin, w.serviceMax = serviceBounds(service)
	if w.serviceMax > 0 {
		w.serviceMean = service.Mean(0, 0)
	}
	w.workers = w.run.Spec.Scenario.Workers
	if w.workers == 0 {
		w.workers = w.pool.Workers
	}
	stub, err := modelstub.New(modelstub.Config{Service: service, Seed: w.run.Spec.Scenario.Seed, Speed: w.run.Speed})
	if err != nil {
		return "", err
	}
	w.slots = &endpointSlots{limit: w.workers}
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true, IdleConnTimeout: time.Minute}
	w.faultPoints = &faultPoints{upstream: fault.New(transport, w.run.Spec.Scenario.Seed), slack: w.slack.faults, speed: w.run.Speed}
	w.calls = &callTrace{clock: w.clock, next: w.faultPoints.upstream}
	at, err := startLoopbackServer(w.calls.wrapEndpoint(stub, w.slots))
	if err != nil {
		return "", err
	}
	w.onStop(func(context.Context) error {
		stub.Close()
		transport.CloseIdleConnections()
		return at.close()
	})
	return at.url("/v1"), nil
}

// openApp starts the App itself.
func (w *sandbox) openApp(cfg *config.Config, upstream, version string) error {
	c := sandboxConfig(cfg, w.pool, w.run, upstream, w.dir)
	token := rand.Text()
	c.Admin.Token, c.Slack = config.NewSecret(token), w.slack.settings
	if err := c.Validate(); err != nil {
		return fmt.Errorf("settings of the twin: %w", err)
	}
	rules, err := sandboxRules(cfg, w.pool, c.Pools[0], w.run.Speed)
	if err != nil {
		return fmt.Errorf("rules of the twin: %w", err)
	}
	a, err := New(c, version, slog.New(slog.DiscardHandler), TimeScale(w.run.Speed),
		withSandboxOverrides(sandboxOverrides{upstream: w.calls, slack: w.slack.senderTransport, rules: rules, speed: w.run.Speed}))
	if err != nil {
		return fmt.Errorf("settings of the twin: %w", err)
	}
	if err := a.Start(); err != nil {
		return fmt.Errorf("start the twin: %w", err)
	}
	w.app = a
	w.onStop(a.Stop)
	w.admin, err = api.NewClient(api.ClientConfig{URL: "http://" + a.AdminAddr(), Token: token, Actor: "drill"})
	if err != nil {
		return err
	}
	w.onStop(func(context.Context) error {
		w.admin.Close()
		return nil
	})
	return nil
}

// Start implements drill.Workload.
func (w *sandbox) Start(context.Context) (time.Time, error) {
	return w.load.start(w.app.DataAddr()), nil
}

// Observe implements drill.Workload.
func (w *sandbox) Observe(ctx context.Context) (drill.Evidence, error) {
	e := drill.Evidence{
		At: w.clock.at(time.Now()), Pool: w.pool.Name, Workers: w.workers, SLO: w.pool.SLO.Turnaround,
		ServiceMin: w.serviceMin, ServiceMax: w.serviceMax, ServiceMean: w.serviceMean, KeptRate: true, FaultHits: w.faultHits(),
	}
	if w.pool.Admission.Policy == "threshold" {
		e.MaxQueueAge, e.MaxWaiting = w.pool.Admission.MaxQueueAge, w.pool.Admission.DepthMultiple*w.workers
	}
	if w.clock.zero.Load() == nil {
		return e, nil
	}
	if slices.ContainsFunc(w.run.Spec.Scenario.Steps, func(s drill.Step) bool { return s.Kind == drill.StepLockRecord }) {
		w.observations.probe(ctx, w.dir, w.clock)
	}
	w.observations.addTo(&e)
	w.load.addTo(&e)
	e.Calls = w.calls.snapshot()
	w.slack.recorder.addTo(&e)
	incidents, _, err := w.app.store.Incidents(ctx, sqlite.IncidentFilter{Limit: maxSandboxIncidents})
	if err != nil {
		return e, fmt.Errorf("the twin's incidents cannot be read: %w", err)
	}
	for _, i := range incidents {
		e.Incidents = append(e.Incidents, i.ID)
	}
	select {
	case err := <-w.app.Failed():
		e.StaleReason = "the twin's listener has failed: " + err.Error()
	default:
	}
	return e, nil
}

// maxSandboxIncidents bounds how many of them are looked at.
const maxSandboxIncidents = 200

// Canary implements drill.Workload.
func (w *sandbox) Canary(ctx context.Context) (time.Duration, error) { return runCanary(ctx) }

// Close implements drill.Environment. Whoever calls it again waits for the first call.
func (w *sandbox) Close(ctx context.Context) error {
	w.closeOnce.Do(func() {
		go func() {
			defer close(w.closed)
			if w.faultPoints != nil {
				_, w.closeErr = w.Clear(ctx)
			}
			if w.load != nil {
				w.closeErr = errors.Join(w.closeErr, w.load.stop(ctx))
			}
			for i := len(w.teardown) - 1; i >= 0; i-- {
				w.closeErr = errors.Join(w.closeErr, w.teardown[i](ctx))
			}
		}()
	})
	select {
	case <-w.closed:
		return w.closeErr
	case <-ctx.Done():
		return fmt.Errorf("take the twin down: %w", context.Cause(ctx))
	}
}

// removeStaleSandboxes removes what a process that was killed has left of its twins.
func removeStaleSandboxes(dataDir string) error {
	return os.RemoveAll(filepath.Join(dataDir, sandboxesDir))
}
