package rules

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"headgate/engine"
)

// queueRules watch the queue against the limits at which the gate refuses.
func queueRules(p Pool) []engine.Rule {
	age, depth := p.MaxQueueAge.Seconds(), float64(p.DepthMultiple*p.Workers)
	return []engine.Rule{
		{
			Name: "queue_age", Unit: "s",
			Signal:  `headgate_queue_oldest_age_seconds{pool="$pool"}`,
			Warn:    threshold(percentOf(age, 60), 30*time.Second),
			Page:    threshold(age, time.Minute),
			Clear:   engine.Clear{Below: percentOf(age, 40), For: 30 * time.Second},
			Summary: "the oldest waiting task has waited for long",
			Impact:  "answers begin late, and new requests are being refused or soon will be",
		},
		{
			Name: "queue_depth", Unit: "tasks",
			Signal:  `headgate_queue_depth{pool="$pool"}`,
			Warn:    threshold(percentOf(depth, 60), 30*time.Second),
			Page:    threshold(depth, time.Minute),
			Clear:   engine.Clear{Below: percentOf(depth, 40), For: 30 * time.Second},
			Summary: "many tasks wait for a worker",
			Impact:  "answers begin late, and new requests are being refused or soon will be",
		},
	}
}

// percentOf returns a percentage of a limit, 60 of 25 being 15 and not 14.999….
func percentOf(limit, percent float64) float64 { return limit * percent / 100 }

// outcomeRules watch what becomes of tasks.
func outcomeRules(p Pool) []engine.Rule {
	slo := p.SLO.Seconds()
	return []engine.Rule{
		{
			Name: "turnaround_p95", Unit: "s",
			Signal:    `round(histogram_quantile(0.95, rate(headgate_turnaround_seconds_bucket{pool="$pool"}[5m])), 0.001)`,
			Events:    `round(increase(headgate_turnaround_seconds_count{pool="$pool"}[5m]))`,
			MinEvents: minEvents,
			Warn:      threshold(percentOf(slo, 75), 2*time.Minute),
			Page:      threshold(slo, 2*time.Minute),
			Clear:     engine.Clear{Below: percentOf(slo, 60), For: 2 * time.Minute},
			Summary:   "of the tasks that are served, more than one in twenty takes too long",
			Impact:    "answers are complete later than promised",
		},
		{
			Name: "refused_share", Unit: "ratio",
			Signal:    `round(rate(headgate_tasks_total{pool="$pool",outcome="refused"}[2m]) / on (pool) rate(headgate_arrivals_total{pool="$pool"}[2m]), 0.0001)`,
			Events:    `round(increase(headgate_arrivals_total{pool="$pool"}[2m]))`,
			MinEvents: minEvents,
			Warn:      threshold(0.05, 2*time.Minute),
			Page:      threshold(0.25, 5*time.Minute),
			Clear:     engine.Clear{Below: 0.02, For: 2 * time.Minute},
			Summary:   "a large share of requests is refused",
			Impact:    "requests fail at once with 429 and are told when to come back",
		},
		{
			Name: "upstream_errors", Unit: "ratio",
			Signal:    fmt.Sprintf(`round(sum(rate(%s[2m])) / sum(rate(%s[2m])), 0.0001)`, tasksByOutcome(upstreamFailures), tasksByOutcome("completed|"+upstreamFailures)),
			Events:    fmt.Sprintf(`round(sum(increase(%s[2m])))`, tasksByOutcome("completed|"+upstreamFailures)),
			MinEvents: minEvents,
			Warn:      threshold(0.05, 2*time.Minute),
			Page:      threshold(0.20, 5*time.Minute),
			Clear:     engine.Clear{Below: 0.02, For: 2 * time.Minute},
			Summary:   "the model endpoint fails, refuses or breaks off",
			Impact:    "requests that were let in end with an error or in the middle of the answer",
		},
	}
}

// upstreamFailures are the outcomes that are the endpoint's doing.
const upstreamFailures = "upstream_error|upstream_refused|upstream_timeout|truncated"

func tasksByOutcome(pattern string) string {
	return `headgate_tasks_total{pool="$pool",outcome=~"` + pattern + `"}`
}

// envelopeMetric is the share of the workers' capacity that arrivals ask for. It looks at a real minute.
const envelopeMetric = "headgate_envelope_use_ratio"

// envelopeUseRule watches how much of what the workers can do is asked of them. The
// gauge may be unknown without traffic: then there are too few events as well.
func envelopeUseRule() engine.Rule {
	return engine.Rule{
		Name: "envelope_use", Unit: "ratio",
		Signal:    `round(` + envelopeMetric + `{pool="$pool"}, 0.0001)`,
		Events:    `round(increase(headgate_arrivals_total{pool="$pool"}[5m]))`,
		MinEvents: minEvents,
		Warn:      threshold(0.8, 5*time.Minute),
		Page:      threshold(1, 5*time.Minute),
		Clear:     engine.Clear{Below: 0.7, For: 5 * time.Minute},
		Summary:   "more work arrives than the workers can do for long",
		Impact:    "waiting grows; if it goes on, requests are refused",
	}
}

// stalledRule watches for workers that are all busy while nothing is finished. Its
// value is for how long that has been so, by how long it may be: the larger of the
// SLO and three times the 95th percentile of service. What it counts from is the
// latest of three moments: when something was completed last, when a worker was
// last free, and the first sample within the look-back. (An hour without work is no
// stall.) While permits come back, by errors too, it is 0.
func stalledRule(p Pool) engine.Rule {
	slo := p.SLO
	back := min(max(15*time.Minute, 4*slo), 50*time.Minute) // short of what has to be recorded
	most := percentOf(back.Seconds(), 90)                   // beyond it a wait could not be seen
	quiet := min(max(slo.Round(time.Second), 10*time.Second), back)
	sinceDone := fmt.Sprintf(`time() - max_over_time(headgate_last_completion_timestamp_seconds{pool="$pool"}[%s])`, model.Duration(back))
	sinceFree := fmt.Sprintf(`time() - max_over_time(((headgate_in_flight{pool="$pool"} < bool headgate_workers{pool="$pool"}) * time())[%s:5s])`, model.Duration(back))
	sinceFirst := fmt.Sprintf(`time() - min_over_time(timestamp(headgate_in_flight{pool="$pool"})[%s:5s])`, model.Duration(back))
	noneBack := fmt.Sprintf(`(rate(headgate_service_seconds_count{pool="$pool"}[%s]) == bool 0)`, model.Duration(quiet))
	service := `3 * histogram_quantile(0.95, sum_over_time(headgate:service_seconds_bucket:1m{pool="$pool"}[30m]))`
	limit := fmt.Sprintf(`clamp_max(%s > %s or on () vector(%[2]s), %s)`, service, formatNumber(min(slo.Seconds(), most)), formatNumber(most))
	return engine.Rule{
		Name: "stalled", Unit: "ratio",
		Signal: fmt.Sprintf(`round(clamp_max(clamp_max(%s, scalar(%s)), scalar(%s)) * on (pool) %s / scalar(%s), 0.01)`,
			sinceDone, sinceFree, sinceFirst, noneBack, limit),
		Page:    threshold(1, 10*time.Second),
		Clear:   engine.Clear{Below: 0.5, For: 30 * time.Second},
		Summary: "every worker is busy and nothing is finished",
		Impact:  "no answer comes to an end; what waits does not begin",
	}
}

// burnRules watch the error budget over four pairs of windows.
func burnRules() []engine.Rule {
	return []engine.Rule{
		burnRule("1h", "5m", engine.LevelPage, 14.4),
		burnRule("6h", "30m", engine.LevelPage, 6),
		burnRule("1d", "2h", engine.LevelWarn, 3),
		burnRule("3d", "6h", engine.LevelWarn, 1),
	}
}

// burnRule watches one pair. Between its two windows the smaller burn counts.
func burnRule(long, short string, level engine.Level, factor float64) engine.Rule {
	bad := func(window string) string {
		return fmt.Sprintf(`(sum_over_time(headgate:slo_bad_tasks:1m{pool="$pool"}[%s]) / sum_over_time(headgate:slo_tasks:1m{pool="$pool"}[%[1]s]))`, window)
	}
	r := engine.Rule{
		Name: "slo_burn_" + long, Unit: UnitBurn, Runbook: "slo_burn",
		Signal:    fmt.Sprintf(`round((%s < %s or %[2]s) / $budget, 0.01)`, bad(long), bad(short)),
		Events:    fmt.Sprintf(`sum_over_time(headgate:slo_tasks:1m{pool="$pool"}[%s])`, short),
		MinEvents: minEvents,
		Clear:     engine.Clear{Below: factor / 2, For: 5 * time.Minute},
		Summary:   fmt.Sprintf("the error budget of the SLO is used up %v times as fast as allowed, over %s and still over %s", factor, long, short),
		Impact:    "too many answers are late or fail",
	}
	if factor == 1 {
		r.Summary = fmt.Sprintf("the error budget of the SLO is used up faster than allowed, over %s and still over %s", long, short)
	}
	limit := threshold(factor, 150*time.Second)
	if level == engine.LevelPage {
		r.Page = limit
	} else {
		r.Warn = limit
	}
	return r
}

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
