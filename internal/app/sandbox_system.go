package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"headgate/engine"
	"headgate/engine/rules"
	"headgate/internal/config"
	"headgate/internal/lifecycle"
	"headgate/internal/sqlite"
	"headgate/runbooks/drill/sandbox"
	"headgate/web/api"
)

// sandboxOverrides replace parts of an App that is the system under test of a drill. The zero value replaces nothing.
type sandboxOverrides struct {
	upstream, slack http.RoundTripper
	rules           []engine.Rule
	speed           float64 // of the scenario; 0: the App is not part of a drill
}

// sandboxSystem is an App as the system under test of a drill. Modes are set through the admin API, as people do.
type sandboxSystem struct {
	*App
	dir   string
	admin *api.Client
}

var _ sandbox.System = sandboxSystem{}

// newSandboxSystem builds and starts an App with the settings and rules of a pool of production.
func (a *App) newSandboxSystem(s sandbox.SystemSpec) (sandbox.System, error) {
	cfg := a.config()
	pool, err := findPool(cfg, s.Pool)
	if err != nil {
		return nil, err
	}
	c, token := sandboxConfig(cfg, pool, s), rand.Text()
	c.Admin.Token = config.NewSecret(token)
	all, err := twinRules(cfg, c.Pools[0], s.Speed)
	if err != nil {
		return nil, fmt.Errorf("rules of the twin: %w", err)
	}
	twin, err := New(c, a.opts.version, slog.New(slog.DiscardHandler), TimeScale(s.Speed), func(o *options) {
		o.sandbox = sandboxOverrides{upstream: s.Upstream, slack: s.Slack, rules: all, speed: s.Speed}
	})
	if err != nil {
		return nil, fmt.Errorf("settings of the twin: %w", err)
	}
	if err := twin.Start(); err != nil {
		return nil, fmt.Errorf("start the twin: %w", err)
	}
	admin, err := api.NewClient(api.ClientConfig{URL: "http://" + twin.AdminAddr(), Token: token, Actor: "drill"})
	if err != nil {
		return nil, fmt.Errorf("client of the twin: %w", err)
	}
	return sandboxSystem{App: twin, dir: s.Dir, admin: admin}, nil
}

// SetMode sets a mode and reads back the modes of all pools.
func (s sandboxSystem) SetMode(ctx context.Context, pool, mode, reason string) (map[string]string, error) {
	if _, err := s.admin.SetMode(ctx, pool, api.ModeRequest{Mode: mode, Reason: reason}); err != nil {
		return nil, err
	}
	status, err := s.admin.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read back the mode: %w", err)
	}
	shown := make(map[string]string, len(status.Pools))
	for _, p := range status.Pools {
		shown[p.Name] = p.Mode
	}
	return shown, nil
}

// Incidents returns the IDs of the twin's incidents.
func (s sandboxSystem) Incidents(ctx context.Context) ([]string, error) {
	return s.incidentIDs(ctx, sqlite.IncidentFilter{Limit: sqlite.MaxLimit})
}

// incidentIDs returns the IDs of recorded incidents.
func (a *App) incidentIDs(ctx context.Context, f sqlite.IncidentFilter) ([]string, error) {
	incidents, _, err := a.record.store.Incidents(ctx, f)
	ids := make([]string, 0, len(incidents))
	for _, i := range incidents {
		ids = append(ids, i.ID)
	}
	return ids, err
}

// ProbeRecord tries to write to the record.
func (s sandboxSystem) ProbeRecord(ctx context.Context) error { return sqlite.ProbeWrite(ctx, s.dir) }

// LockRecord locks the record.
func (s sandboxSystem) LockRecord(ctx context.Context) (func(context.Context) error, error) {
	return sqlite.LockExclusive(ctx, s.dir)
}

// Stop stops the App.
func (s sandboxSystem) Stop(ctx context.Context) error {
	s.admin.Close()
	return s.App.Stop(ctx)
}

// sandboxConfig copies the settings of a pool, except for what would reach out of the twin, and for times, which are
// divided by the speed. The idle timeout of the upstream is scaled too, but not below a second.
func sandboxConfig(cfg *config.Config, p config.Pool, s sandbox.SystemSpec) *config.Config {
	c := config.Default()
	c.Listen, c.Admin.Listen, c.DataDir, c.Drain = lifecycle.Loopback, lifecycle.Loopback, s.Dir, 0
	c.Rules.Interval = cfg.Rules.Interval // the rules themselves are passed to New
	c.Rollback.Auto = false               // only steps of the drill roll back
	c.Slack = config.Slack{
		BotToken: config.NewSecret(s.Messages.Token), APIURL: s.Messages.APIURL,
		Channels: config.Channels{Page: s.Messages.Channel},
	}
	p.Upstream, p.UpstreamKey, p.Models, p.Endpoints = s.UpstreamURL, config.Secret{}, []string{"*"}, nil
	p.Mode, p.Workers = "enforce", s.Workers
	wall := func(d time.Duration) time.Duration { return time.Duration(math.Ceil(float64(d) / s.Speed)) }
	p.SLO.Turnaround, p.Admission.MaxQueueAge = wall(p.SLO.Turnaround), wall(p.Admission.MaxQueueAge)
	p.Timeouts.UpstreamIdle = max(wall(p.Timeouts.UpstreamIdle), time.Second)
	c.Pools = []config.Pool{p}
	return c
}

// findPool returns the pool of a name; the first for an empty name.
func findPool(cfg *config.Config, name string) (config.Pool, error) {
	i := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return name == "" || p.Name == name })
	if i < 0 {
		return config.Pool{}, fmt.Errorf("there is no pool %.63q", name)
	}
	return cfg.Pools[i], nil
}

// twinRules returns production's rules for a pool of its settings that is scaled already.
func twinRules(cfg *config.Config, scaled config.Pool, speed float64) ([]engine.Rule, error) {
	load := func(s rules.Settings) ([]engine.Rule, error) { return loadRules(cfg, s) }
	return rules.ForTwin(load, RuleSettings(cfg), rulePool(scaled), speed)
}
