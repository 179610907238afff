package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"headgate/alerts"
	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/proxy"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
	"headgate/runbooks/drill/service"
	"headgate/runbooks/drill/spec"
	"headgate/web/api"
)

// drillsEnabled says whether an App has drills: the system of a twin and the sides of a demo have none.
func (a *App) drillsEnabled() bool {
	return a.sandbox.speed == 0 && !a.withoutMonitoring && a.timeScale.RealTime()
}

// startDrills starts the service of drills.
func (a *App) startDrills() (err error) {
	environments := a.drillEnvironments()
	if err := environments.RemoveStale(); err != nil {
		return fmt.Errorf("drills: remove what a twin has left: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeOpenTimeout)
	defer cancel()
	a.drills, err = service.Start(ctx, service.Options{
		Store: a.store.Drills(), Environments: environments, Production: a.drillProduction(), Specs: a.currentDrillSpecs,
		Settings: func() spec.Settings { return drillSettings(a.currentConfig()) },
		Pool: func(s drill.Spec) string {
			pool, _ := findPool(a.currentConfig(), s.Pool) // empty if there is none
			return pool.Name
		},
		NotificationTarget: func() string { return slackChannel(a.currentConfig().Slack).Target() },
		Metrics:            a.drillMetrics, OnVerdict: a.notifyVerdict, Version: a.version, Log: a.log.With("component", "drills"),
	})
	if err != nil {
		return fmt.Errorf("drills: %w", err)
	}
	return nil
}

// drillStopTimeout is how long a stop waits for a drill to end.
const drillStopTimeout = 8 * time.Second

// stopDrills aborts the drill in progress. It comes before everything else: a fault must not outlast a stop.
func (a *App) stopDrills(ctx context.Context) error {
	if a.drills == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drillStopTimeout)
	defer cancel()
	return a.drills.Stop(ctx)
}

// currentConfig are the settings of now.
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

// drillProduction is what drills leave alone.
func (a *App) drillProduction() *service.Production {
	return &service.Production{
		Draining: a.draining.Load, Mode: a.modes.State, Arrivals: a.proxyArrivals, Traffic: &a.traffic,
		Pool: func(s drill.Spec) (string, error) {
			pool, err := a.drillPool(s)
			return pool.Name, err
		},
		OpenIncidents: func(ctx context.Context) ([]engine.Incident, error) {
			open, _, err := a.store.Incidents(ctx, sqlite.IncidentFilter{Open: true, Limit: sqlite.MaxLimit})
			return open, err
		},
		Budget: func(ctx context.Context, name string) (service.Budget, error) {
			pool, err := findPool(a.currentConfig(), name)
			if err != nil {
				return service.Budget{}, err
			}
			good, bad, err := a.store.SLO(ctx, name, time.Now().Add(-pool.SLO.Window))
			return service.Budget{Good: good, Bad: bad, Objective: pool.SLO.Objective}, err
		},
	}
}

// proxyArrivals adds up the arrivals that the proxy has counted.
func (a *App) proxyArrivals() (sum float64) {
	families, err := a.registry.Gather()
	if err != nil { // what could be gathered is there all the same
		a.log.Debug("not all metrics gathered", "error", err)
	}
	for _, f := range families {
		if f.GetName() != "headgate_arrivals_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

// drillAPI are drills as the admin plane sees them; nil if there are none.
func (a *App) drillAPI() *api.DrillPorts {
	if a.drills == nil {
		return nil
	}
	audited := service.Audited{Service: a.drills, Append: func(ctx context.Context, e control.AuditEntry) {
		e.Via = api.ViaFromContext(ctx)
		a.auditor.Append(e)
	}}
	return &api.DrillPorts{Catalog: audited, Controller: audited, Runs: drillRunStore{a.store.Drills()}}
}

// drillRunStore is the record of drills.
type drillRunStore struct{ *sqlite.Drills }

var _ api.DrillRunReader = drillRunStore{}

// Runs returns a page of runs.
func (r drillRunStore) Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error) {
	runs, next, err = r.Drills.Runs(ctx, q)
	if errors.Is(err, sqlite.ErrPageKey) {
		err = api.ErrUnknownCursor
	}
	return runs, next, err
}

// verdictTimeout bounds the writing of a verdict to the outbox.
const verdictTimeout = 10 * time.Second

// notifyVerdict announces the verdict of a run. The owner of a drill that failed is mentioned, if Slack knows him.
func (a *App) notifyVerdict(r drill.Run) {
	if a.monitor == nil || !a.notifiers.enabled() {
		return
	}
	_, err := slack.ParseMention(r.Spec.Owner)
	mention := err == nil && r.Spec.Owner != ""
	text := service.VerdictText(r, a.currentConfig().Admin.ExternalURL, mention)
	n := a.notifiers.routes.NewNotice(newID(), "drill-"+r.ID, r.Spec.Pool, text, r.Ended)
	if a.notifiers.routes.Drills != "" {
		n.Destination = alerts.ToDrills
	}
	if mention && r.Verdict == drill.Failed {
		n.Notification.Ping, n.Notification.Event.By = true, r.Spec.Owner
	}
	ctx, cancel := context.WithTimeout(context.Background(), verdictTimeout)
	defer cancel()
	if err := a.store.Outbox().Save(ctx, alerts.Changes{Add: []alerts.Delivery{n}}); err != nil {
		a.log.Error("verdict of a drill not delivered", "run", r.ID, "verdict", string(r.Verdict), "error", err)
		return
	}
	a.monitor.wakeDispatcher()
}
