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

// twinsDir is where twins keep their records while they live, in the data directory.
// What a process has left there when it was killed goes at the next start.
const twinsDir = "drills"

// twins opens a second App for each run, with what belongs around it.
type twins struct {
	settings func() *config.Config // of the App that they are twins of
	dir      string                // empty: the system's, for what is temporary
	version  string
}

// twin is an App that stands in for another: its gate, rules, messages and record
// are made as production's are from the same settings, and share nothing with them.
type twin struct {
	*ways
	run     drill.Run
	pool    config.Pool // of production
	least   time.Duration
	most    time.Duration
	mean    time.Duration
	clock   *playClock
	load    *load
	book    *callBook
	slots   *slots
	slack   *twinSlack
	seen    sightings
	app     *App
	dir     string
	workers int
	admin   *api.Client
	stops   []func(context.Context) error // last in, first out
	closing sync.Once
	gone    chan struct{}
	err     error
}

// Open implements drill.Opener.
func (t *twins) Open(ctx context.Context, r drill.Run) (drill.Stage, error) {
	cfg := t.settings()
	w := &twin{run: r, clock: &playClock{speed: r.Speed}, gone: make(chan struct{})}
	if err := w.build(cfg, t); err != nil {
		return nil, errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// build makes everything, from the far ends inwards.
func (w *twin) build(cfg *config.Config, t *twins) (err error) {
	if w.pool, err = drillPool(cfg, w.run.Spec.Pool); err != nil {
		return err
	}
	if w.load, err = newLoad(w.run.Spec, w.pool.SLO.Turnaround, w.clock); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := w.makeDir(t.dir); err != nil {
		return err
	}
	if w.slack, err = newTwinSlack(cfg.Slack, w.run.Spec.Scenario.Seed); err != nil {
		return fmt.Errorf("stand-in for Slack: %w", err)
	}
	w.onStop(w.slack.close)
	address, err := w.openEndpoint()
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	return w.openApp(cfg, address, t.version)
}

func (w *twin) onStop(f func(context.Context) error) { w.stops = append(w.stops, f) }

func (w *twin) makeDir(parent string) (err error) {
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
func (w *twin) openEndpoint() (address string, err error) {
	service, err := modelstub.ParseService(w.run.Spec.Scenario.Service)
	if err != nil {
		return "", err
	}
	w.least, w.most = serviceBounds(service)
	if w.most > 0 {
		w.mean = service.Mean(0, 0)
	}
	w.workers = w.run.Spec.Scenario.Workers
	if w.workers == 0 {
		w.workers = w.pool.Workers
	}
	stub, err := modelstub.New(modelstub.Config{Service: service, Seed: w.run.Spec.Scenario.Seed, Speed: w.run.Speed})
	if err != nil {
		return "", err
	}
	w.slots = &slots{limit: w.workers}
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true, IdleConnTimeout: time.Minute}
	w.ways = &ways{upstream: fault.New(transport, w.run.Spec.Scenario.Seed), slack: w.slack.faults, speed: w.run.Speed}
	w.book = &callBook{clock: w.clock, next: w.ways.upstream}
	at, err := openSite(w.book.endpoint(stub, w.slots))
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
func (w *twin) openApp(cfg *config.Config, upstream, version string) error {
	c := twinSettings(cfg, w.pool, w.run, upstream, w.dir)
	token := rand.Text()
	c.Admin.Token, c.Slack = config.NewSecret(token), w.slack.settings
	if err := c.Validate(); err != nil {
		return fmt.Errorf("settings of the twin: %w", err)
	}
	rules, err := twinRules(cfg, w.pool, c.Pools[0], w.run.Speed)
	if err != nil {
		return fmt.Errorf("rules of the twin: %w", err)
	}
	a, err := New(c, version, slog.New(slog.DiscardHandler), Paced(w.run.Speed),
		asDouble(double{upstream: w.book, slack: w.slack.way, rules: rules, speed: w.run.Speed}))
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

// Start implements drill.Scene.
func (w *twin) Start(context.Context) (time.Time, error) { return w.load.start(w.app.DataAddr()), nil }

// Look implements drill.Scene.
func (w *twin) Look(ctx context.Context) (drill.Evidence, error) {
	e := drill.Evidence{
		At: w.clock.at(time.Now()), Pool: w.pool.Name, Workers: w.workers, SLO: w.pool.SLO.Turnaround,
		ServiceMin: w.least, ServiceMax: w.most, ServiceMean: w.mean, KeptRate: true, Befallen: w.befallen(),
	}
	if w.pool.Admission.Policy == "threshold" {
		e.MaxQueueAge, e.MaxWaiting = w.pool.Admission.MaxQueueAge, w.pool.Admission.DepthMultiple*w.workers
	}
	if w.clock.zero.Load() == nil {
		return e, nil
	}
	if slices.ContainsFunc(w.run.Spec.Scenario.Steps, func(s drill.Step) bool { return s.Kind == drill.StepLockRecord }) {
		w.seen.probe(ctx, w.record(), w.clock)
	}
	w.seen.see(&e)
	w.load.see(&e)
	e.Calls = w.book.seen()
	w.slack.receiver.see(&e)
	incidents, _, err := w.app.store.Incidents(ctx, sqlite.IncidentFilter{Limit: maxTwinIncidents})
	if err != nil {
		return e, fmt.Errorf("the twin's incidents cannot be read: %w", err)
	}
	for _, i := range incidents {
		e.Incidents = append(e.Incidents, i.ID)
	}
	select {
	case err := <-w.app.Failed():
		e.Stale = "the twin's listener has failed: " + err.Error()
	default:
	}
	return e, nil
}

// maxTwinIncidents bounds how many of them are looked at.
const maxTwinIncidents = 200

// Canary implements drill.Scene.
func (w *twin) Canary(ctx context.Context) (time.Duration, error) { return canary(ctx) }

// Close implements drill.Stage. Whoever calls it again waits for the first call.
func (w *twin) Close(ctx context.Context) error {
	w.closing.Do(func() {
		go func() {
			defer close(w.gone)
			if w.ways != nil {
				_, w.err = w.Clear(ctx)
			}
			if w.load != nil {
				w.err = errors.Join(w.err, w.load.stop(ctx))
			}
			for i := len(w.stops) - 1; i >= 0; i-- {
				w.err = errors.Join(w.err, w.stops[i](ctx))
			}
		}()
	})
	select {
	case <-w.gone:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("take the twin down: %w", context.Cause(ctx))
	}
}

// sweepTwins removes what a process that was killed has left of its twins.
func sweepTwins(dataDir string) error { return os.RemoveAll(filepath.Join(dataDir, twinsDir)) }
