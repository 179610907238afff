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
	gates  map[string]*admission.Gate // of all pools ever, so that those that are gone drain
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
	if err := a.metrics.addPools(p.pools()); err != nil {
		return err
	}
	now, before := time.Now(), s.pools
	added := poolsNotIn(p.pools(), before)
	a.record.addPools(now, added)
	if err := a.proxy.Reload(p.proxy); err != nil {
		a.record.removePools(added)
		return err
	}
	for i, pool := range p.proxy.Pools {
		if err := pool.Gate.Reconfigure(now, p.gates[i]); err != nil {
			return fmt.Errorf("pool %q: %w", pool.Name, err) // not after a.plan
		}
	}
	s.apply(p)
	a.record.removePools(poolsNotIn(before, s.pools))
	if a.interactions != nil {
		if err := a.interactions.SetAllow(allowLists(cfg.Slack.Allow)); err != nil {
			return cfg.At("slack.allow", err) // not after the settings were checked
		}
	}
	if a.drills != nil {
		a.drills.Reload(p.drills)
	}
	if a.monitor == nil {
		return nil
	}
	a.record.autoRollback.Configure(autoRollbackSettings(cfg.Rollback))
	return a.monitor.reload(p.rules)
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

// plan does all of the work that can fail. Errors carry the position of the setting. Gates that exist already are kept.
func (a *App) plan(cfg *config.Config, gates map[string]*admission.Gate) (p plan, err error) {
	p = plan{cfg: cfg, proxy: proxy.Config{Observer: a.metrics.proxy, Log: a.log.With("component", "proxy")}}
	if p.proxy.Clients, err = proxyClients(cfg); err != nil {
		return p, err
	}
	for i := range cfg.Pools {
		c, err := admissionConfig(cfg, i)
		if err != nil {
			return p, err
		}
		gate := gates[cfg.Pools[i].Name]
		if gate == nil {
			c.Monitor = invariant.New() // for as long as the gate lives
			if gate, err = admission.New(c); err != nil {
				return p, admissionError(cfg, i, err)
			}
		}
		pool, err := proxyPool(cfg, i, gate)
		if err != nil {
			return p, err
		}
		p.gates, p.proxy.Pools = append(p.gates, c), append(p.proxy.Pools, pool)
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

// reload gives new rules to the engine.
func (m *monitor) reload(rules []engine.Rule) error {
	ctx, cancel := context.WithTimeout(context.Background(), rulesReloadTimeout)
	defer cancel()
	if err := m.engine.Reload(ctx, rules); err != nil {
		return fmt.Errorf("pools are changed, rules are not: %w", err)
	}
	return nil
}

// assumedServiceDivisor is the part of the SLO that a task is assumed to take until one
// has been measured: with more, the threshold policy would not hold the SLO.
const assumedServiceDivisor = 4

// proxyPool makes the data plane's pool out of its settings.
func proxyPool(cfg *config.Config, i int, gate *admission.Gate) (proxy.Pool, error) {
	c := &cfg.Pools[i]
	upstream, err := url.Parse(c.Upstream)
	if err != nil { // the settings have been checked; and its text may hold a secret
		return proxy.Pool{}, cfg.At(fmt.Sprintf("pools[%d].upstream", i), errors.New("is not a URL"))
	}
	return proxy.Pool{
		Name: c.Name, Upstream: upstream, UpstreamKey: c.UpstreamKey.Reveal(), Models: c.Models, Endpoints: c.Endpoints,
		Gate: gate, SLO: c.SLO.Turnaround,
		ConnectTimeout: c.Timeouts.UpstreamConnect, IdleTimeout: c.Timeouts.UpstreamIdle,
		BodyLimit: int64(c.Limits.Body), BufferLimit: int64(c.Limits.Buffered), StreamKeepAlive: c.StreamKeepalive,
	}, nil
}

// admissionConfig makes the gate's settings out of a pool's.
func admissionConfig(cfg *config.Config, i int) (admission.Config, error) {
	c := &cfg.Pools[i]
	mode, err := admission.ParseMode(c.Mode)
	if err != nil {
		return admission.Config{}, admissionError(cfg, i, &admission.FieldError{Field: "mode", Message: err.Error()})
	}
	p, err := admissionPolicy(c.Admission)
	if err != nil {
		return admission.Config{}, admissionError(cfg, i, err)
	}
	return admission.Config{
		Workers: c.Workers, Policy: p, Mode: mode,
		QueueLimit: c.Limits.PassthroughQueue, AssumedService: c.SLO.Turnaround / assumedServiceDivisor,
	}, nil
}

// admissionPolicy returns the admission policy of that name.
func admissionPolicy(c config.Admission) (admission.Policy, error) {
	switch c.Policy {
	case "threshold":
		return admission.NewThreshold(c.MaxQueueAge, c.DepthMultiple)
	case "none":
		return admission.None{}, nil
	default:
		return nil, &admission.FieldError{Field: "policy", Message: fmt.Sprintf("unknown policy %q: must be threshold or none", c.Policy)}
	}
}

// proxyClients returns the clients whose keys are accepted.
func proxyClients(cfg *config.Config) ([]proxy.Client, error) {
	var all []proxy.Client
	for i, c := range cfg.Clients {
		client := proxy.Client{Name: c.Name}
		sum, err := hex.DecodeString(c.KeySHA256)
		if err != nil || len(sum) != len(client.KeySHA256) {
			return nil, cfg.At(fmt.Sprintf("clients[%d].key_sha256", i), errors.New("must be 64 hexadecimal digits"))
		}
		client.KeySHA256 = [len(client.KeySHA256)]byte(sum)
		if c.Priority == admission.Batch.String() {
			client.Class = admission.Batch
		}
		all = append(all, client)
	}
	return all, nil
}

// admissionError puts what the gate refuses at the setting that it came from.
func admissionError(cfg *config.Config, i int, err error) error {
	var field *admission.FieldError
	if !errors.As(err, &field) {
		return cfg.At(fmt.Sprintf("pools[%d].admission", i), err)
	}
	return cfg.At(fmt.Sprintf("pools[%d].%s", i, configPaths[field.Field]), errors.New(field.Message))
}

// configPaths maps the gate's names of settings to their places in the file.
var configPaths = map[string]string{
	"workers":           "workers",
	"mode":              "mode",
	"policy":            "admission.policy",
	"max_queue_age":     "admission.max_queue_age",
	"depth_multiple":    "admission.depth_multiple",
	"passthrough_queue": "limits.passthrough_queue",
	"assumed_service":   "slo.turnaround",
}
