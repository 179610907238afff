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
			Summary: "the oldest queued task has waited too long",
			Impact:  "answers start late, and new requests are refused or soon will be",
		},
		{
			Name: "queue_depth", Unit: "tasks",
			Signal:  `headgate_queue_depth{pool="$pool"}`,
			Warn:    threshold(percentOf(depth, 60), 30*time.Second),
			Page:    threshold(depth, time.Minute),
			Clear:   engine.Clear{Below: percentOf(depth, 40), For: 30 * time.Second},
			Summary: "many tasks wait for a worker",
			Impact:  "answers start late, and new requests are refused or soon will be",
		},
	}
}

// percentOf returns a percentage of a limit, 60 of 25 being 15 and not 14.999….
func percentOf(limit, percent float64) float64 { return limit * percent / 100 }

// outcomeRules watch turnaround and the outcomes of tasks.
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
			Summary:   "more than one in twenty served tasks takes too long",
			Impact:    "answers complete later than promised",
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
			Impact:    "requests fail at once with 429 and a Retry-After",
		},
		{
			Name: "upstream_errors", Unit: "ratio",
			Signal: fmt.Sprintf(`round(sum(rate(%s[2m])) / sum(rate(%s[2m])), 0.0001)`,
				tasksByOutcome(upstreamFailures), tasksByOutcome("completed|"+upstreamFailures)),
			Events:    fmt.Sprintf(`round(sum(increase(%s[2m])))`, tasksByOutcome("completed|"+upstreamFailures)),
			MinEvents: minEvents,
			Warn:      threshold(0.05, 2*time.Minute),
			Page:      threshold(0.20, 5*time.Minute),
			Clear:     engine.Clear{Below: 0.02, For: 2 * time.Minute},
			Summary:   "the model endpoint fails, refuses or truncates answers",
			Impact:    "admitted requests end with an error or in the middle of the answer",
		},
	}
}

// upstreamFailures are the outcomes that the endpoint causes.
const upstreamFailures = "upstream_error|upstream_refused|upstream_timeout|truncated"

func tasksByOutcome(pattern string) string {
	return `headgate_tasks_total{pool="$pool",outcome=~"` + pattern + `"}`
}

// envelopeMetric is the share of the workers' capacity that arrivals ask for. It looks at a real minute.
const envelopeMetric = "headgate_envelope_use_ratio"

// envelopeUseRule watches the share of the workers' capacity that is in demand. Without traffic the gauge may be
// unknown, but then there are too few events as well.
func envelopeUseRule() engine.Rule {
	return engine.Rule{
		Name: "envelope_use", Unit: "ratio",
		Signal:    `round(` + envelopeMetric + `{pool="$pool"}, 0.0001)`,
		Events:    `round(increase(headgate_arrivals_total{pool="$pool"}[5m]))`,
		MinEvents: minEvents,
		Warn:      threshold(0.8, 5*time.Minute),
		Page:      threshold(1, 5*time.Minute),
		Clear:     engine.Clear{Below: 0.7, For: 5 * time.Minute},
		Summary:   "more work arrives than the workers can sustain",
		Impact:    "queue times grow; if this continues, requests are refused",
	}
}

// stalledRule watches for workers that are all busy while nothing completes. Its value is how long that has lasted,
// divided by how long it may last: the larger of the SLO and three times the 95th percentile of service. It counts from
// the latest of three times: the last completion, the last time a worker was free, and the first sample within the
// look-back. (An hour without work is no stall.) While permits are released, by errors too, it is 0.
func stalledRule(p Pool) engine.Rule {
	slo := p.SLO
	back := min(max(15*time.Minute, 4*slo), 50*time.Minute) // short of what has to be recorded
	most := percentOf(back.Seconds(), 90)                   // beyond it a wait could not be seen
	quiet := min(max(slo.Round(time.Second), 10*time.Second), back)
	sinceDone := fmt.Sprintf(`time() - max_over_time(headgate_last_completion_timestamp_seconds{pool="$pool"}[%s])`,
		model.Duration(back))
	sinceFree := fmt.Sprintf(`time() - max_over_time(((headgate_in_flight{pool="$pool"} < bool headgate_workers{pool="$pool"}) * time())[%s:5s])`, model.Duration(back))
	sinceFirst := fmt.Sprintf(`time() - min_over_time(timestamp(headgate_in_flight{pool="$pool"})[%s:5s])`,
		model.Duration(back))
	noneBack := fmt.Sprintf(`(rate(headgate_service_seconds_count{pool="$pool"}[%s]) == bool 0)`, model.Duration(quiet))
	service := `3 * histogram_quantile(0.95, sum_over_time(headgate:service_seconds_bucket:1m{pool="$pool"}[30m]))`
	limit := fmt.Sprintf(`clamp_max(%s > %s or on () vector(%[2]s), %s)`, service, formatNumber(min(slo.Seconds(),
		most)), formatNumber(most))
	return engine.Rule{
		Name: "stalled", Unit: "ratio",
		Signal: fmt.Sprintf(`round(clamp_max(clamp_max(%s, scalar(%s)), scalar(%s)) * on (pool) %s / scalar(%s), 0.01)`,
			sinceDone, sinceFree, sinceFirst, noneBack, limit),
		Page:    threshold(1, 10*time.Second),
		Clear:   engine.Clear{Below: 0.5, For: 30 * time.Second},
		Summary: "all workers are busy and nothing completes",
		Impact:  "no answer completes, and queued requests do not start",
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

// gateRules watch the gate itself. They alone have an action, so they read only metrics that load cannot affect:
// rolling back a healthy gate under load makes the queue longer. They look back seconds, or more if rules are evaluated
// seldom.
func gateRules(interval time.Duration) []engine.Rule {
	lately := func(d time.Duration) model.Duration { return model.Duration(max(d, 3*interval)) }
	half, quarter := lately(30*time.Second), lately(15*time.Second)
	return []engine.Rule{falseRefusalRule(half), gateFaultRule(half), gateLatencyRule(quarter)}
}

// falseRefusalRule watches refusals that the independent invariant check disputes. One is a fault; three are a
// persistent one.
func falseRefusalRule(window model.Duration) engine.Rule {
	return engine.Rule{
		Name: "false_refusal", Unit: "tasks", Action: actionRollback,
		Signal:  fmt.Sprintf(`round(sum(increase(headgate_false_refusals_total{pool="$pool"}[%s])))`, window),
		Warn:    threshold(1, 5*time.Second),
		Page:    threshold(3, 10*time.Second),
		Clear:   engine.Clear{Below: 1, For: time.Minute},
		Summary: "the gate refuses tasks that it should admit",
		Impact:  "requests fail with 429 although there is capacity",
	}
}

// gateFaultRule watches panics, after which tasks are admitted without a decision.
func gateFaultRule(window model.Duration) engine.Rule {
	return engine.Rule{
		Name: "gate_fault", Unit: "panics", Action: actionRollback,
		Signal:  fmt.Sprintf(`round(increase(headgate_gate_panics_total{pool="$pool"}[%s]))`, window),
		Warn:    threshold(1, 5*time.Second),
		Page:    threshold(3, 10*time.Second),
		Clear:   engine.Clear{Below: 1, For: time.Minute},
		Summary: "the gate's own code panics",
		Impact:  "none yet, but tasks are admitted without a decision, so overload would not be limited",
	}
}

// gateLatencyRule watches how long the gate delays tasks that find a free permit, and whether it answers at all: when
// tasks queue for its lock, none gets through for long. A process that was suspended for a moment has a few such tasks
// too, all at once, so the duration of the page is longer than the window.
func gateLatencyRule(window model.Duration) engine.Rule {
	const free = `headgate_gate_free_seconds`
	slow := fmt.Sprintf(`(increase(%s_count{pool="$pool"}[%s]) - on (pool) increase(%[1]s_bucket{pool="$pool",le="1"}[%[2]s]))`, free, window)
	p99 := fmt.Sprintf(`histogram_quantile(0.99, rate(%s_bucket{pool="$pool"}[%s]))`, free, window)
	return engine.Rule{
		Name: "gate_latency", Unit: "s", Action: actionRollback,
		// 1.5, since extrapolation makes fractions of two tasks. Without tasks there is no quantile, and the value is
		// 0.
		Signal: fmt.Sprintf(`round(((%s >= 0) * on (pool) (%s > bool 1.5)) > on (pool) %[3]s or on (pool) %[3]s, 0.001)`, p99, slow,
			`headgate_gate_behind_seconds{pool="$pool"}`),
		Page:    threshold(1, 20*time.Second),
		Clear:   engine.Clear{Below: 0.5, For: time.Minute},
		Summary: "the gate itself delays tasks although workers are free",
		Impact:  "answers start late although there is capacity",
	}
}
