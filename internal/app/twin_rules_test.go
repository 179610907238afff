package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"headgate/engine"
	"headgate/internal/config"
)

// scaledPool is a pool as a twin has it at ten times the speed.
func scaledPool(p config.Pool) config.Pool {
	p.Workers = 16
	p.SLO.Turnaround, p.Admission.MaxQueueAge = p.SLO.Turnaround/10, p.Admission.MaxQueueAge/10
	return p
}

func ruleNamed(t *testing.T, all []engine.Rule, name, pool string) engine.Rule {
	t.Helper()
	for _, r := range all {
		if r.Name == name && r.Pool == pool {
			return r
		}
	}
	t.Fatalf("no rule %s of %q", name, pool)
	return engine.Rule{}
}

// The built-in rules come with the settings; what they say in seconds is scaled once,
// and what they say in tasks goes by the twin's workers.
func TestSandboxRulesBuiltIn(t *testing.T) {
	cfg := config.Default()
	p := cfg.Pools[0]
	rules, err := sandboxRules(cfg, p, scaledPool(p), 10)
	if err != nil {
		t.Fatal(err)
	}
	if r := ruleNamed(t, rules, "queue_age", "default"); r.Page.At != 2.5 || r.Warn.At != 1.5 || r.Page.For != time.Minute {
		t.Errorf("queue_age %+v, %+v", r.Warn, r.Page)
	}
	if r := ruleNamed(t, rules, "queue_depth", "default"); r.Page.At != 32 {
		t.Errorf("queue_depth %+v", r.Page)
	}
	if r := ruleNamed(t, rules, "refused_share", "default"); r.Page.At != 0.25 {
		t.Errorf("refused_share %+v", r.Page)
	}
}

// A file of rules has seconds as numbers of its own, and may speak of pools that a
// twin does not have.
func TestSandboxRulesFromFile(t *testing.T) {
	cfg := config.Default()
	other := cfg.Pools[0]
	other.Name, other.Models = "other", []string{"b"}
	cfg.Pools = append(cfg.Pools, other)
	cfg.Rules.File = filepath.Join(t.TempDir(), "rules.yaml")
	const text = `rules:
  - name: old_tasks
    signal: headgate_queue_oldest_age_seconds{pool="$pool"}
    unit: s
    pools: [default, other]
    warn: {at: 15, for: 30s}
    page: {at: 25, for: 1m}
    clear: {below: 10, for: 30s}
    summary: tasks are old
    runbook: queue_age
  - name: near_slo
    signal: headgate_queue_oldest_age_seconds{pool="$pool"} / $slo
    unit: ratio
    warn: {at: 0.5, for: 30s}
    clear: {below: 0.4, for: 30s}
    summary: tasks are near the limit
    runbook: queue_age
`
	if err := os.WriteFile(cfg.Rules.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := cfg.Pools[0]
	rules, err := sandboxRules(cfg, p, scaledPool(p), 10)
	if err != nil {
		t.Fatal(err)
	}
	if r := ruleNamed(t, rules, "old_tasks", "default"); r.Warn.At != 1.5 || r.Page.At != 2.5 || r.Clear.Below != 1 {
		t.Errorf("%+v, %+v, %+v", r.Warn, r.Page, r.Clear)
	}
	if r := ruleNamed(t, rules, "near_slo", "default"); r.Warn.At != 0.5 || r.Signal != `headgate_queue_oldest_age_seconds{pool="default"} / 6` {
		t.Errorf("%+v of %s", r.Warn, r.Signal)
	}
	for _, r := range rules {
		if r.Pool == "other" {
			t.Errorf("the twin has rule %s of another pool", r.Name)
		}
	}
	if cfg.Pools[0].Workers != p.Workers {
		t.Error("production's settings were changed")
	}
}
