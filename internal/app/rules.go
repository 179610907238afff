package app

import (
	"headgate/engine"
	"headgate/engine/rules"
	"headgate/internal/config"
	"headgate/runbooks"
)

// Rules returns the rules that a service with these settings evaluates.
func Rules(cfg *config.Config) ([]engine.Rule, error) {
	if cfg.Rules.File != "" {
		all, err := rules.Load(cfg.Rules.File, RuleSettings(cfg))
		return all, cfg.At("rules.file", err)
	}
	all, err := rules.BuiltIn(RuleSettings(cfg))
	return all, cfg.At("pools", err)
}

// RuleSettings returns what rules and their thresholds are derived from.
func RuleSettings(cfg *config.Config) rules.Settings {
	s := rules.Settings{
		Interval: cfg.Rules.Interval, SlowEvery: engine.DefaultConfig().SlowEvery, Retention: cfg.Retention.Samples,
		Runbooks: runbooks.PageNames(),
	}
	for _, p := range cfg.Pools {
		s.Pools = append(s.Pools, rules.Pool{
			Name: p.Name, Workers: p.Workers, SLO: p.SLO.Turnaround, Objective: p.SLO.Objective, Window: p.SLO.Window,
			MaxQueueAge: p.Admission.MaxQueueAge, DepthMultiple: p.Admission.DepthMultiple,
		})
	}
	return s
}
