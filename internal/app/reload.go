package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"headgate/engine/rules"
	"headgate/internal/config"
)

// Reload changes what can be changed while serving: pools, clients, limits,
// hosts, the drain time, who may do what from Slack. All that can fail is done
// first; when it does, nothing has changed. Tasks that are here go on as they
// began; a pool that is gone takes no new ones and finishes what it has.
func (a *App) Reload(cfg *config.Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.checkImmutable(cfg); err != nil {
		return err
	}
	p, err := planConfig(cfg, a.gates)
	if err != nil {
		return err
	}
	if p.rules, err = rules.Scale(p.rules, a.timeScale, cfg.Rules.Interval); err != nil {
		return err
	}
	specs, err := drillSpecs(cfg)
	if err != nil {
		return err
	}
	a.setTransports(cfg, p.data.Pools)
	before := a.pools
	if err := a.addPools(p); err != nil {
		a.pools = before
		return err
	}
	now := time.Now()
	for _, added := range poolsNotIn(a.pools, before) {
		a.modes.Add(now, added.Name, added.Gate)
		a.pauses.PoolAdded(now, added.Name)
	}
	if err := a.proxy.Reload(p.data); err != nil {
		for _, added := range poolsNotIn(a.pools, before) {
			a.modes.Remove(added.Name)
		}
		a.pools = before
		return err
	}
	for i, pool := range p.data.Pools {
		if err := pool.Gate.Reconfigure(now, p.gates[i]); err != nil {
			return fmt.Errorf("pool %q: %w", pool.Name, err) // not after planConfig
		}
	}
	for _, gone := range poolsNotIn(before, a.pools) {
		a.modes.Remove(gone.Name)
	}
	if a.interactions != nil {
		if err := a.interactions.SetAllow(allowLists(cfg.Slack.Allow)); err != nil {
			return cfg.At("slack.allow", err) // not after the settings were checked
		}
	}
	a.cfg, a.rules, a.drillSpecs = cfg, p.rules, specs
	if a.drills != nil {
		a.drills.Reload(specs)
	}
	a.allowedHosts.Store(hostNames(cfg))
	if a.monitor == nil {
		return nil
	}
	a.autoRollback.Configure(autoRollbackConfig(cfg.Rollback))
	ctx, cancel := context.WithTimeout(context.Background(), rulesReloadTimeout)
	defer cancel()
	if err := a.monitor.engine.Reload(ctx, p.rules); err != nil {
		return fmt.Errorf("pools are changed, rules are not: %w", err)
	}
	return nil
}

// poolsNotIn returns the pools of some that are not among others.
func poolsNotIn(some, others []Pool) []Pool {
	var all []Pool
	for _, p := range some {
		if !slices.ContainsFunc(others, func(o Pool) bool { return o.Name == p.Name }) {
			all = append(all, p)
		}
	}
	return all
}

// rulesReloadTimeout bounds the wait for the engine to take new rules.
const rulesReloadTimeout = 5 * time.Second

// withoutAllowLists leaves out what can change while serving.
func withoutAllowLists(s config.Slack) config.Slack {
	s.Allow = config.Allow{}
	return s
}

// checkImmutable refuses changes that need a restart.
func (a *App) checkImmutable(cfg *config.Config) error {
	restart := errors.New("cannot change while serving: restart instead")
	switch {
	case cfg.Listen != a.cfg.Listen:
		return cfg.At("listen", restart)
	case cfg.Admin.Listen != a.cfg.Admin.Listen:
		return cfg.At("admin.listen", restart)
	case !cfg.Admin.Token.Equal(a.cfg.Admin.Token):
		return cfg.At("admin.token", restart)
	case cfg.Admin.AnonymousRead != a.cfg.Admin.AnonymousRead:
		return cfg.At("admin.anonymous_read", restart)
	case cfg.DataDir != a.cfg.DataDir:
		return cfg.At("data_dir", restart)
	case !reflect.DeepEqual(withoutAllowLists(cfg.Slack), withoutAllowLists(a.cfg.Slack)):
		return cfg.At("slack", restart)
	case !reflect.DeepEqual(cfg.Heartbeat, a.cfg.Heartbeat):
		return cfg.At("heartbeat", restart)
	case cfg.Retention != a.cfg.Retention:
		return cfg.At("retention", restart)
	case cfg.Rules.Interval != a.cfg.Rules.Interval:
		return cfg.At("rules.interval", restart)
	case cfg.Log.Format != a.cfg.Log.Format:
		return cfg.At("log.format", restart)
	}
	return nil
}
