package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/config"
	"headgate/internal/modelstub"
	"headgate/internal/sqlite"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
	"headgate/runbooks/drill/service"
	"headgate/runbooks/drill/spec"
	"headgate/web/api"
)

// drillsEnabled says whether an App has drills: the system of a twin and the sides of a demo have none.
func (a *App) drillsEnabled() bool {
	return a.opts.sandbox.speed == 0 && !a.opts.withoutMonitoring && a.opts.timeScale.RealTime()
}

// startDrills starts the service of drills, if there are any.
func (a *App) startDrills() (err error) {
	if !a.drillsEnabled() {
		return nil
	}
	environments := a.drillEnvironments()
	if err := environments.RemoveStale(); err != nil {
		return fmt.Errorf("drills: remove leftover twin directories: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeOpenTimeout)
	defer cancel()
	a.drills, err = service.Start(ctx, service.Options{
		Store: a.record.store.Drills(), Environments: environments, Production: a.drillProduction(), Specs: a.drillSpecs,
		Settings: func() spec.Settings { return drillSettings(a.config()) },
		Pool: func(s drill.Spec) string {
			pool, _ := findPool(a.config(), s.Pool) // empty if there is none
			return pool.Name
		},
		NotificationTarget: func() string { return slackChannel(a.config().Slack).Target() },
		Metrics:            a.metrics.drills, OnVerdict: a.notifyVerdict, Version: a.opts.version,
		Log: a.opts.component("drills"),
	})
	if err != nil {
		return fmt.Errorf("drills: %w", err)
	}
	return nil
}

// stopDrills aborts the drill in progress. It comes before everything else: a fault must not outlast a stop.
func (a *App) stopDrills(ctx context.Context) error {
	if a.drills == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drillStopTimeout)
	defer cancel()
	return a.drills.Stop(ctx)
}

// drillEnvironments builds the environments of drills from production's settings.
func (a *App) drillEnvironments() *sandbox.Environments {
	e := &sandbox.Environments{
		Pool: a.drillPool, NewSystem: a.newSandboxSystem, Traffic: &a.traffic,
		Messages: func() sandbox.SlackChannel { return slackChannel(a.config().Slack) },
		Incidents: func(ctx context.Context, pool string, since time.Time) ([]string, error) {
			return a.incidentIDs(ctx, sqlite.IncidentFilter{Pool: pool, Since: since, Limit: sqlite.MaxLimit})
		},
	}
	if !a.opts.ephemeral {
		e.Dir = filepath.Join(a.config().DataDir, "drills")
	}
	return e
}

// slackChannel is where the messages of drills go.
func slackChannel(s config.Slack) sandbox.SlackChannel {
	return sandbox.SlackChannel{Token: s.BotToken.Reveal(), APIURL: s.APIURL, Channel: s.Channels.Drills}
}

// drillPool returns the pool that a drill is about.
func (a *App) drillPool(s drill.Spec) (sandbox.Pool, error) {
	cfg := a.config()
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

// drillProduction is what drills leave alone.
func (a *App) drillProduction() *service.Production {
	return &service.Production{
		Draining: a.draining.Load, Mode: a.record.modes.State, Arrivals: a.metrics.proxy.Arrivals, Traffic: &a.traffic,
		Pool: func(s drill.Spec) (string, error) {
			pool, err := a.drillPool(s)
			return pool.Name, err
		},
		OpenIncidents: func(ctx context.Context) ([]engine.Incident, error) {
			open, _, err := a.record.store.Incidents(ctx, sqlite.IncidentFilter{Open: true, Limit: sqlite.MaxLimit})
			return open, err
		},
		Budget: func(ctx context.Context, name string) (service.Budget, error) {
			pool, err := findPool(a.config(), name)
			if err != nil {
				return service.Budget{}, err
			}
			good, bad, err := a.record.store.SLO(ctx, name, time.Now().Add(-pool.SLO.Window))
			return service.Budget{Good: good, Bad: bad, Objective: pool.SLO.Objective}, err
		},
	}
}

// drillAPI are drills as the admin plane sees them; nil if there are none.
func (a *App) drillAPI() *api.DrillPorts {
	if a.drills == nil {
		return nil
	}
	audited := service.Audited{Service: a.drills, Append: func(ctx context.Context, e control.AuditEntry) {
		e.Via = api.ViaFromContext(ctx)
		a.record.audit.Append(e)
	}}
	return &api.DrillPorts{Catalog: audited, Controller: audited, Runs: a.record.store.Drills()}
}

// notifyVerdict announces the verdict of a run. The owner of a drill that failed is mentioned, if Slack knows him.
func (a *App) notifyVerdict(r drill.Run) {
	if a.monitor == nil || !a.notifiers.Enabled() {
		return
	}
	_, err := slack.ParseMention(r.Spec.Owner)
	mention := err == nil && r.Spec.Owner != ""
	text := service.VerdictText(r, a.config().Admin.ExternalURL, mention)
	n := a.notifiers.Routes.NewNotice(newID(), "drill-"+r.ID, r.Spec.Pool, text, r.Ended, true)
	if mention && r.Verdict == drill.Failed {
		n.Notification.Ping, n.Notification.Event.By = true, r.Spec.Owner
	}
	ctx, cancel := context.WithTimeout(context.Background(), verdictTimeout)
	defer cancel()
	if err := a.enqueueNotice(ctx, n); err != nil {
		a.opts.log.Error("verdict of a drill not delivered", "run", r.ID, "verdict", string(r.Verdict), "error", err)
	}
}

// drillSpecs are the built-in drills and those of the settings, by ID.
func drillSpecs(cfg *config.Config) ([]drill.Spec, error) {
	builtIn, err := spec.BuiltIn()
	if err != nil {
		return nil, err
	}
	var sources []spec.Source
	for _, d := range cfg.Drills {
		sources = append(sources, spec.Source(d))
	}
	own, err := spec.ParseAll(sources, drillSettings(cfg))
	if err != nil {
		return nil, err
	}
	all, err := spec.Merge(builtIn, own)
	return all, cfg.At("drills", err)
}

// drillSettings are what definitions are checked against.
func drillSettings(cfg *config.Config) spec.Settings {
	set := spec.Settings{AllowLive: cfg.AllowLive, Service: func(text string) error {
		_, err := modelstub.ParseService(text)
		return err
	}}
	for _, p := range cfg.Pools {
		set.Pools = append(set.Pools, p.Name)
	}
	return set
}
