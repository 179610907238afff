package app

import (
	"slices"

	"headgate/engine"
	"headgate/internal/config"
)

// sandboxRules are production's rules of a pool, and those of the process, for a twin
// whose times pass faster. What is derived from the pool's settings comes scaled
// with them; a threshold in seconds that is a number of its own is divided here.
func sandboxRules(cfg *config.Config, pool config.Pool, scaled config.Pool, speed float64) ([]engine.Rule, error) {
	own := pool
	own.Workers = scaled.Workers
	plain, err := Rules(withPool(cfg, own))
	if err != nil {
		return nil, err
	}
	rules, err := Rules(withPool(cfg, scaled))
	if err != nil {
		return nil, err
	}
	rules = slices.DeleteFunc(rules, func(r engine.Rule) bool { return r.Pool != "" && r.Pool != pool.Name })
	for i := range rules {
		r := &rules[i]
		at := slices.IndexFunc(plain, func(p engine.Rule) bool { return p.Key() == r.Key() })
		if at < 0 || r.Unit != "s" || r.Pool == "" {
			continue
		}
		was := plain[at]
		for _, v := range []struct {
			now *float64
			was float64
		}{{&r.Warn.At, was.Warn.At}, {&r.Page.At, was.Page.At}, {&r.Clear.Below, was.Clear.Below}} {
			if *v.now == v.was {
				*v.now /= speed
			}
		}
	}
	return rules, nil
}

// withPool returns the settings with another pool of that name.
func withPool(cfg *config.Config, pool config.Pool) *config.Config {
	c := *cfg
	c.Pools = slices.Clone(cfg.Pools)
	for i := range c.Pools {
		if c.Pools[i].Name == pool.Name {
			c.Pools[i] = pool
		}
	}
	return &c
}
