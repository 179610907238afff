package rules

import (
	"strings"
	"testing"
)

// signals of load: what overload or a slow endpoint brings about. They are those
// of the built-in rules that take no action, and their kin.
var loadSignals = map[string]string{
	"age":           `headgate_queue_oldest_age_seconds{pool="$pool"}`,
	"depth":         `headgate_queue_depth{pool="$pool"}`,
	"waits":         `histogram_quantile(0.95, rate(headgate_queue_wait_seconds_bucket{pool="$pool"}[5m]))`,
	"turnaround":    `histogram_quantile(0.95, rate(headgate_turnaround_seconds_bucket{pool="$pool"}[5m]))`,
	"refused":       `increase(headgate_refusals_total{pool="$pool",reason="queue_age"}[1m])`,
	"refused share": `rate(headgate_tasks_total{pool="$pool",outcome="refused"}[2m])`,
	"would refuse":  `increase(headgate_would_refuse_total{pool="$pool",reason="queue_age"}[1m])`,
	"envelope":      `headgate_envelope_use_ratio{pool="$pool"}`,
	"burn":          `sum_over_time(headgate:slo_bad_tasks:1m{pool="$pool"}[1h])`,
	"burn, short":   `rate(headgate_slo_bad_tasks_total{pool="$pool"}[5m])`,
	"hung endpoint": `time() - headgate_last_completion_timestamp_seconds{pool="$pool"}`,
	"hidden":        `headgate_gate_panics_total{pool="$pool"} + on (pool) headgate_queue_depth{pool="$pool"}`,
}

// ruleWithAction is a file with one rule that takes an action.
func ruleWithAction(signal string, more ...string) string {
	return "rules:\n  - name: mine\n    signal: >\n      " + signal + `
    action: rollback
    page: {at: 1, for: 10m}
    clear: {below: 1, for: 10m}
    summary: something is wrong
    runbook: queue_age
` + strings.Join(more, "")
}

func TestRollbackOnLoadNeedsConfirmation(t *testing.T) {
	for name, signal := range loadSignals {
		if _, err := Parse("f", []byte(ruleWithAction(signal)), settings()); err == nil || !strings.Contains(err.Error(), "i_understand: true") {
			t.Errorf("%s: error %v, want one that names i_understand", name, err)
		}
		if got, err := Parse("f", []byte(ruleWithAction(signal, "    i_understand: true\n")), settings()); err != nil || got[0].Action != "rollback" {
			t.Errorf("%s, understood: %v", name, err)
		}
	}
}

// What only a faulty gate does needs no such word, and no built-in rule has it.
func TestRollbackOnFaultsNeedsNoConfirmation(t *testing.T) {
	for _, r := range builtIn(t, settings()) {
		e, err := parse(r.Signal)
		if r.Action == "" || err != nil {
			continue
		}
		if m := e.loadMetric(); m != "" {
			t.Errorf("%s acts on %s", r.Name, m)
		}
		if _, err := Parse("f", []byte(ruleWithAction(strings.ReplaceAll(r.Signal, `"default"`, `"$pool"`))), settings()); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}
