package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
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

// settings are what a reload replaces, all at once. The methods may be called from any goroutine, except for apply.
type settings struct {
	mu     sync.Mutex
	cfg    *config.Config
	pools  []Pool
	rules  []engine.Rule
	drills []drill.Spec
	hosts  []string                   // names by which this headgate may be called
	gates  map[string]*admission.Gate // of all pools ever, so that those of removed pools drain
}

func (s *settings) config() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

func (s *settings) currentPools() []Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools
}

func (s *settings) drillSpecs() []drill.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drills
}

func (s *settings) allowedHosts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts
}

// drain rejects all queued tasks, and from now on all that arrive.
func (s *settings) drain(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		g.Drain(now)
	}
}

// apply makes a plan current. The lock must be held, except in New.
func (s *settings) apply(p plan) {
	s.cfg, s.pools, s.rules, s.drills, s.hosts = p.cfg, p.pools(), p.rules, p.drills, p.cfg.HostNames()
	if s.gates == nil {
		s.gates = make(map[string]*admission.Gate)
	}
	for _, pool := range s.pools {
		s.gates[pool.Name] = pool.Gate
	}
}

// Reload changes what can be changed while serving: pools, clients, limits, hosts, rules, drills, the drain time, who may
// do what from Slack. All that can fail is done first; when it does, nothing has changed. Accepted tasks continue as they
// began; a pool that is gone takes no new ones and finishes what it has.
func (a *App) Reload(cfg *config.Config) error {
	s := &a.current
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cfg.CheckReload(cfg); err != nil {
		return err
	}
	p, err := a.plan(cfg, s.gates)
	if err != nil {
		return err
	}
	routes, err := a.proxy.Prepare(p.proxy)
	if err != nil {
		return err
	}
	if err := a.metrics.addPools(p.pools()); err != nil {
		return err
	}
	if err := a.monitor.reload(p.rules); err != nil { // the last that can fail
		return err
	}
	now, before := time.Now(), s.pools
	a.record.addPools(now, poolsNotIn(p.pools(), before))
	a.proxy.Apply(routes)
	for i, pool := range p.proxy.Pools {
		err = errors.Join(err, pool.Gate.Reconfigure(now, p.gates[i]))
	}
	s.apply(p)
	a.record.removePools(poolsNotIn(before, s.pools))
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
	cfg    *config.Config
	proxy  proxy.Config
	gates  []admission.Config // one for each pool, in the order of the settings
	rules  []engine.Rule
	drills []drill.Spec
}

func (p plan) pools() []Pool {
	pools := make([]Pool, 0, len(p.proxy.Pools))
	for _, pool := range p.proxy.Pools {
		pools = append(pools, Pool{Name: pool.Name, SLO: pool.SLO, Gate: pool.Gate})
	}
	return pools
}

// plan checks the settings and does all of the work that can fail. Gates that exist already are kept.
func (a *App) plan(cfg *config.Config, gates map[string]*admission.Gate) (p plan, err error) {
	p = plan{cfg: cfg, proxy: proxy.Config{Observer: a.metrics.proxy, Log: a.log.With("component", "proxy")}}
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
		settings, pool, err := poolParts(c)
		if err != nil {
			return p, cfg.At(fmt.Sprintf("pools[%d]", i), err)
		}
		if gate := gates[c.Name]; gate != nil {
			pool.Gate = gate
		}
		p.gates, p.proxy.Pools = append(p.gates, settings), append(p.proxy.Pools, pool)
	}
	a.transports(cfg, p.proxy.Pools)
	if p.drills, err = drillSpecs(cfg); err != nil {
		return p, err
	}
	if p.rules = a.sandbox.rules; p.rules == nil {
		if p.rules, err = Rules(cfg); err != nil {
			return p, err
		}
	}
	p.rules, err = rules.Scale(p.rules, a.timeScale, cfg.Rules.Interval)
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

// rulesReloadTimeout bounds the wait until the engine has taken new rules.
const rulesReloadTimeout = 5 * time.Second

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

// assumedServiceDivisor is the part of the SLO that a task is assumed to take until one
// has been measured: with more, the threshold policy would not hold the SLO.
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
	if g.Policy, err = admissionPolicy(c.Admission); err != nil {
		return g, p, err
	}
	p = proxy.Pool{
		Name: c.Name, UpstreamKey: c.UpstreamKey.Reveal(), Models: c.Models, Endpoints: c.Endpoints, SLO: c.SLO.Turnaround,
		ConnectTimeout: c.Timeouts.UpstreamConnect, IdleTimeout: c.Timeouts.UpstreamIdle,
		BodyLimit: int64(c.Limits.Body), BufferLimit: int64(c.Limits.Buffered), StreamKeepAlive: c.StreamKeepalive,
	}
	if p.Gate, err = admission.New(g); err != nil {
		return g, p, err
	}
	if p.Upstream, err = url.Parse(c.Upstream); err != nil {
		return g, p, errors.New("upstream is not a URL") // its text may hold a secret
	}
	return g, p, nil
}

// admissionPolicy returns the admission policy of that name.
func admissionPolicy(c config.Admission) (admission.Policy, error) {
	switch c.Policy {
	case "threshold":
		return admission.NewThreshold(c.MaxQueueAge, c.DepthMultiple)
	case "none":
		return admission.None{}, nil
	default:
		return nil, fmt.Errorf("unknown policy %q", c.Policy)
	}
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
