package rules

import (
	"fmt"
	"time"

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

// envelopeUseRule watches how much of what the workers can do is asked of them. The
// gauge may be unknown without traffic: then there are too few events as well.
func envelopeUseRule() engine.Rule {
	return engine.Rule{
		Name: "envelope_use", Unit: "ratio",
		Signal:    `round(headgate_envelope_use_ratio{pool="$pool"}, 0.0001)`,
		Events:    `round(increase(headgate_arrivals_total{pool="$pool"}[5m]))`,
		MinEvents: minEvents,
		Warn:      threshold(0.8, 5*time.Minute),
		Page:      threshold(1, 5*time.Minute),
		Clear:     engine.Clear{Below: 0.7, For: 5 * time.Minute},
		Summary:   "more work arrives than the workers can do for long",
		Impact:    "waiting grows; if it goes on, requests are refused",
	}
}
