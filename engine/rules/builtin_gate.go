package rules

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"headgate/engine"
)

// actionRollback is the action of rules whose page says that the gate itself is broken.
const actionRollback = "rollback"

// gateRules watch the gate itself. They alone carry an action, and so read only
// what no load can bring about: taking a sound gate out under load makes the
// queue longer. What they find is a matter of seconds, so that only rules that
// are seldom evaluated look back further.
func gateRules(interval time.Duration) []engine.Rule {
	lately := func(d time.Duration) model.Duration { return model.Duration(max(d, 3*interval)) }
	half, quarter := lately(30*time.Second), lately(15*time.Second)
	return []engine.Rule{falseRefusalRule(half), gateFaultRule(half), gateLatencyRule(quarter)}
}

// falseRefusalRule looks at refusals that a second account of the pool disputes. One
// is a fault already; three are one that goes on.
func falseRefusalRule(window model.Duration) engine.Rule {
	return engine.Rule{
		Name: "false_refusal", Unit: "tasks", Action: actionRollback,
		Signal:  fmt.Sprintf(`round(sum(increase(headgate_false_refusals_total{pool="$pool"}[%s])))`, window),
		Warn:    threshold(1, 5*time.Second),
		Page:    threshold(3, 10*time.Second),
		Clear:   engine.Clear{Below: 1, For: time.Minute},
		Summary: "the gate refuses tasks that it should let in",
		Impact:  "requests fail with 429 though there is room for them",
	}
}

// gateFaultRule looks at panics. The tasks come in all the same; but nobody decides.
func gateFaultRule(window model.Duration) engine.Rule {
	return engine.Rule{
		Name: "gate_fault", Unit: "panics", Action: actionRollback,
		Signal:  fmt.Sprintf(`round(increase(headgate_gate_panics_total{pool="$pool"}[%s]))`, window),
		Warn:    threshold(1, 5*time.Second),
		Page:    threshold(3, 10*time.Second),
		Clear:   engine.Clear{Below: 1, For: time.Minute},
		Summary: "the gate's own code fails",
		Impact:  "nothing yet: tasks are let in undecided, so that a crowd would not be held back",
	}
}

// gateLatencyRule looks at how long tasks that find a permit free are held up by the
// gate, and at whether it answers at all: when tasks queue for its lock, none of
// them is through for long. A process that was stopped for a moment has a few such tasks too, all at
// once: so the page's for is longer than the window.
func gateLatencyRule(window model.Duration) engine.Rule {
	const free = `headgate_gate_free_seconds`
	slow := fmt.Sprintf(`(increase(%s_count{pool="$pool"}[%s]) - on (pool) increase(%[1]s_bucket{pool="$pool",le="1"}[%[2]s]))`, free, window)
	p99 := fmt.Sprintf(`histogram_quantile(0.99, rate(%s_bucket{pool="$pool"}[%s]))`, free, window)
	return engine.Rule{
		Name: "gate_latency", Unit: "s", Action: actionRollback,
		// Two are more than 1.5 by extrapolation. Of no task at all there is no quantile: then it is 0.
		Signal: fmt.Sprintf(`round(((%s >= 0) * on (pool) (%s > bool 1.5)) > on (pool) %[3]s or on (pool) %[3]s, 0.001)`, p99, slow,
			`headgate_gate_behind_seconds{pool="$pool"}`),
		Page:    threshold(1, 20*time.Second),
		Clear:   engine.Clear{Below: 0.5, For: time.Minute},
		Summary: "the gate itself holds tasks up though workers are free",
		Impact:  "answers begin late though there is room for them",
	}
}
