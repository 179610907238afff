package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"headgate/engine"
	"headgate/engine/rules"
	"headgate/internal/config"
	"headgate/proxy"
	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
	"headgate/runbooks"
	"headgate/runbooks/drill"
)

// Pool is the public view of a pool.
type Pool struct {
	Name string
	SLO  time.Duration
	Gate *admission.Gate
}

// settings are what a reload replaces, all at once. Once they are current they do not change.
type settings struct {
	cfg    *config.Config
	pools  []Pool
	rules  []engine.Rule
	drills []drill.Spec
	hosts  []string                   // names by which this headgate may be called
	gates  map[string]*admission.Gate // of all pools ever, so that those of removed pools drain
}

func (a *App) config() *config.Config { return a.current.Load().cfg }

func (a *App) drillSpecs() []drill.Spec { return a.current.Load().drills }

// drain rejects all queued tasks, and from now on all that arrive.
func (a *App) drain(now time.Time) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	for _, g := range a.current.Load().gates {
		g.Drain(now)
	}
}

// Reload changes what can be changed while serving: pools, clients, limits, hosts, rules, drills, the drain time, who may
// do what from Slack. All that can fail is done first; when it does, nothing has changed. Accepted tasks continue as they
// began; a pool that is gone takes no new ones and finishes what it has.
func (a *App) Reload(cfg *config.Config) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	before := a.current.Load()
	if err := before.cfg.CheckReload(cfg); err != nil {
		return err
	}
	p, err := a.plan(cfg, *before)
	if err != nil {
		return err
	}
	routes, err := a.proxy.Prepare(p.proxy)
	if err != nil {
		return err
	}
	if err := a.metrics.addPools(p.pools); err != nil {
		return err
	}
	if err := a.monitor.reload(p.rules); err != nil { // the last that can fail
		return err
	}
	now := time.Now()
	for _, pool := range poolsNotIn(p.pools, before.pools) {
		a.record.control.AddPool(now, pool.Name, pool.Gate)
	}
	a.proxy.Apply(routes)
	for i, pool := range p.pools {
		err = errors.Join(err, pool.Gate.Reconfigure(now, p.limits[i]))
	}
	a.current.Store(&p.settings)
	for _, pool := range poolsNotIn(before.pools, p.pools) {
		a.record.control.RemovePool(pool.Name)
	}
	if a.interactions != nil {
		err = errors.Join(err, a.interactions.SetAllow(allowLists(cfg.Slack.Allow)))
	}
	if a.drills != nil {
		a.drills.Reload(p.drills)
	}
	if a.monitor != nil {
		a.record.autoRollback.Configure(autoRollbackSettings(cfg.Rollback))
	}
	return err // always nil: a.plan has checked the gates and the lists
}

// poolsNotIn returns the pools of some that are not among others.
func poolsNotIn(some, others []Pool) []Pool {
	return slices.DeleteFunc(slices.Clone(some), func(p Pool) bool {
		return slices.ContainsFunc(others, func(o Pool) bool { return o.Name == p.Name })
	})
}

// plan is what the settings imply, before any of it is applied.
type plan struct {
	settings
	proxy  proxy.Config
	limits []admission.Config // of the gates, in the order of the pools
}

// plan checks the settings and does all of the work that can fail. The gates of before are kept.
func (a *App) plan(cfg *config.Config, before settings) (p plan, err error) {
	p.settings = settings{cfg: cfg, hosts: cfg.HostNames(), gates: map[string]*admission.Gate{}}
	maps.Copy(p.gates, before.gates)
	p.proxy = proxy.Config{Observer: a.metrics.proxy, Log: a.opts.component("proxy")}
	if err := cfg.Validate(); err != nil {
		return p, err
	}
	if err := allowLists(cfg.Slack.Allow).Validate(); err != nil {
		return p, cfg.At("slack.allow", err)
	}
	if p.proxy.Clients, err = proxyClients(cfg); err != nil {
		return p, cfg.At("clients", err)
	}
	for i, c := range cfg.Pools {
		limits, pool, err := poolParts(c)
		if err != nil {
			return p, cfg.At(fmt.Sprintf("pools[%d]", i), err)
		}
		if pool.Connections.TLS, err = upstreamTLS(cfg, i); err != nil {
			return p, err
		}
		if gate := before.gates[c.Name]; gate != nil {
			pool.Gate = gate
		}
		p.gates[c.Name] = pool.Gate
		p.pools = append(p.pools, Pool{Name: c.Name, SLO: pool.SLO, Gate: pool.Gate})
		p.limits, p.proxy.Pools = append(p.limits, limits), append(p.proxy.Pools, pool)
	}
	a.transports(cfg, p.proxy.Pools)
	if p.drills, err = drillSpecs(cfg); err != nil {
		return p, err
	}
	if p.rules = a.opts.sandbox.rules; p.rules == nil {
		if p.rules, err = Rules(cfg); err != nil {
			return p, err
		}
	}
	p.rules, err = rules.Scale(p.rules, a.opts.timeScale, cfg.Rules.Interval)
	return p, err
}

// Rules returns the rules that a service with these settings evaluates.
func Rules(cfg *config.Config) ([]engine.Rule, error) { return loadRules(cfg, RuleSettings(cfg)) }

func loadRules(cfg *config.Config, s rules.Settings) ([]engine.Rule, error) {
	if cfg.Rules.File != "" {
		all, err := rules.Load(cfg.Rules.File, s)
		return all, cfg.At("rules.file", err)
	}
	all, err := rules.BuiltIn(s)
	return all, cfg.At("pools", err)
}

// RuleSettings returns what rules and their thresholds are derived from.
func RuleSettings(cfg *config.Config) rules.Settings {
	s := rules.Settings{
		Interval: cfg.Rules.Interval, SlowEvery: engine.DefaultConfig().SlowEvery, Retention: cfg.Retention.Samples,
		Runbooks: runbooks.PageNames(),
	}
	for _, p := range cfg.Pools {
		s.Pools = append(s.Pools, rulePool(p))
	}
	return s
}

func rulePool(p config.Pool) rules.Pool {
	return rules.Pool{
		Name: p.Name, Workers: p.Workers, SLO: p.SLO.Turnaround, Objective: p.SLO.Objective, Window: p.SLO.Window,
		MaxQueueAge: p.Admission.MaxQueueAge, DepthMultiple: p.Admission.DepthMultiple,
	}
}

// reload gives new rules to the engine, all or none.
func (m *monitor) reload(rules []engine.Rule) error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rulesReloadTimeout)
	defer cancel()
	if err := m.engine.Reload(ctx, rules); err != nil {
		return fmt.Errorf("the engine does not take the rules: %w", err)
	}
	return nil
}

// assumedServiceDivisor is the part of the SLO that a task is assumed to take until one has been measured: with more, the
// threshold policy would not hold the SLO.
const assumedServiceDivisor = 4

// poolParts makes the parts of a pool from its settings: those of the gate, and the pool of the data plane with a new
// gate. The settings have been validated.
func poolParts(c config.Pool) (g admission.Config, p proxy.Pool, err error) {
	g = admission.Config{
		Workers: c.Workers, QueueLimit: c.Limits.PassthroughQueue,
		AssumedService: c.SLO.Turnaround / assumedServiceDivisor, Monitor: invariant.New(),
	}
	if g.Mode, err = admission.ParseMode(c.Mode); err != nil {
		return g, p, err
	}
	a := c.Admission
	if g.Policy, err = admission.ParsePolicy(a.Policy, a.MaxQueueAge, a.DepthMultiple); err != nil {
		return g, p, err
	}
	p = proxy.Pool{
		Name: c.Name, UpstreamKey: c.UpstreamKey.Reveal(), Models: c.Models, SLO: c.SLO.Turnaround,
		ConnectTimeout: c.Timeouts.UpstreamConnect, IdleTimeout: c.Timeouts.UpstreamIdle,
		Connections: proxy.Connections{Idle: c.Timeouts.UpstreamKeepalive, MaxAge: c.Timeouts.UpstreamMaxAge},
		KeyHeader:   c.UpstreamKeyHeader,
		BodyLimit:   int64(c.Limits.Body), BufferLimit: int64(c.Limits.Buffered), StreamKeepAlive: c.StreamKeepalive,
	}
	for _, e := range c.Endpoints {
		p.Endpoints = append(p.Endpoints, proxy.Endpoint{
			Method: e.Method(), Path: e.Path(), Gate: e.Gate, Retry: e.Retry,
		})
	}
	if p.Gate, err = admission.New(g); err != nil {
		return g, p, err
	}
	if p.Upstream, err = url.Parse(c.Upstream); err != nil {
		return g, p, errors.New("upstream is not a URL") // its text may hold a secret
	}
	return g, p, nil
}

// upstreamTLS reads the certificates of a pool.
func upstreamTLS(cfg *config.Config, i int) (t proxy.TLS, err error) {
	c, at := cfg.Pools[i].UpstreamTLS, fmt.Sprintf("pools[%d].upstream_tls", i)
	for _, file := range []struct {
		key, path string
		content   *string
	}{{"ca_file", c.CAFile, &t.CA}, {"cert_file", c.CertFile, &t.Cert}, {"key_file", c.KeyFile, &t.Key}} {
		if *file.content, err = cfg.ReadFile(file.path); err != nil {
			return t, cfg.At(at+"."+file.key, err)
		}
	}
	_, err = t.Config()
	return t, cfg.At(at, err)
}

// proxyClients returns the clients whose keys are accepted.
func proxyClients(cfg *config.Config) ([]proxy.Client, error) {
	var all []proxy.Client
	for _, c := range cfg.Clients {
		client := proxy.Client{Name: c.Name}
		if _, err := hex.Decode(client.KeySHA256[:], []byte(c.KeySHA256)); err != nil {
			return nil, err
		}
		if c.Priority == admission.Batch.String() {
			client.Class = admission.Batch
		}
		all = append(all, client)
	}
	return all, nil
}
