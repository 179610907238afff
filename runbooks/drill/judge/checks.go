package judge

import (
	"fmt"
	"slices"

	"headgate/runbooks/drill"
)

// tier says what a violation means for the verdict.
type tier int

const (
	// invariant: a working gate keeps it, whatever the drill and however busy the machine. The verdict is Failed.
	invariant tier = iota
	// unlessBusy: as invariant, but as timing if the machine was busy.
	unlessBusy
	// timing: a working gate keeps it if the machine is not busy. Failed, or Inconclusive if the machine stalled.
	timing
	// precondition: without it the run cannot be judged. Inconclusive.
	precondition
)

// check is one statement about a run that every drill is judged by.
type check struct {
	name     string
	tier     tier
	live     bool // it can be decided when only a part of production is seen
	baseline bool // it also decides about a baseline
	// run returns the violation, a clause that names what is broken; empty: none.
	run func(*Evaluation) string
}

// checks are all checks, in the order in which a reason names violations of a tier.
var checks = []check{
	{name: "calls_without_task", tier: invariant, run: (*Evaluation).callsWithoutTask},
	{name: "calls_for_refused_tasks", tier: invariant, run: (*Evaluation).callsForRefusedTasks},
	{name: "duplicate_calls", tier: invariant, run: (*Evaluation).duplicateCalls},
	{name: "answers_without_call", tier: invariant, run: (*Evaluation).answersWithoutCall},
	{name: "answer_mismatch", tier: invariant, live: true, run: (*Evaluation).answerMismatch},
	{name: "premature_refusals", tier: invariant, run: (*Evaluation).prematureRefusals},
	{name: "refusals_without_reason", tier: invariant, live: true, run: (*Evaluation).refusalsWithoutReason},
	{name: "unexpected_refusal_status", tier: invariant, live: true, run: (*Evaluation).unexpectedRefusalStatus},
	{name: "uncleared_faults", tier: invariant, live: true, run: (*Evaluation).unclearedFaults},
	{name: "unapplied_requests", tier: invariant, run: (*Evaluation).unappliedRequests},
	zero(drill.BadRetryAfter, invariant),
	zero(drill.OverLimit, invariant),
	zero(drill.FalseCompletions, invariant),
	zero(drill.MessageFaults, invariant),
	zero(drill.ProductionDrift, invariant),

	zero(drill.TasksLost, unlessBusy),

	{name: "fifo_violations", tier: timing, run: (*Evaluation).fifoViolations},
	{name: "calls_after_deadline", tier: timing, run: (*Evaluation).callsAfterDeadline},
	{name: "idle_workers", tier: timing, run: (*Evaluation).idleWorkers},
	{name: "delayed_answers", tier: timing, live: true, run: (*Evaluation).delayedAnswers},
	{name: "underused_workers", tier: timing, run: (*Evaluation).underusedWorkers},
	{name: "delayed_first_bytes", tier: timing, run: (*Evaluation).delayedFirstBytes},
	{name: "slow_refusals", tier: timing, live: true, run: (*Evaluation).slowRefusals},
	{name: "queue_over_limit", tier: timing, run: (*Evaluation).queueOverLimit},
	{name: "admitted_over_age", tier: timing, run: (*Evaluation).admittedOverAge},
	{name: "premature_pages", tier: timing, run: (*Evaluation).prematurePages},
	{name: "slow_clearing", tier: timing, live: true, run: (*Evaluation).slowClearing},
	{name: "faults_after_clear", tier: timing, live: true, run: (*Evaluation).faultsAfterClear},
	{name: "age_limit_ignored", tier: timing, run: (*Evaluation).ageLimitIgnored},

	{name: "telemetry_gap", tier: precondition, live: true, baseline: true, run: (*Evaluation).telemetryGap},
	{name: "rate_not_kept", tier: precondition, live: true, baseline: true, run: (*Evaluation).rateNotKept},
	{name: "too_few_samples", tier: precondition, live: true, run: (*Evaluation).tooFewSamples},
	{name: "burst_mismatch", tier: precondition, live: true, run: (*Evaluation).burstMismatch},
	{name: "load_mismatch", tier: precondition, live: true, run: (*Evaluation).loadMismatch},
	{name: "endpoint_overloaded", tier: precondition, live: true, baseline: true, run: (*Evaluation).endpointOverloaded},
	{name: "service_time_mismatch", tier: precondition, live: true, baseline: true, run: (*Evaluation).serviceTimeMismatch},
	{name: "failed_steps", tier: precondition, live: true, run: (*Evaluation).failedSteps},
	{name: "unconfirmed_faults", tier: precondition, live: true, run: (*Evaluation).unconfirmedFaults},
	{name: "unconfirmed_slack_fault", tier: precondition, live: true, run: (*Evaluation).unconfirmedSlackFault},
}

// reasonIf returns a reason if a condition holds, otherwise none.
func reasonIf(holds bool, format string, args ...any) string {
	if !holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// zero checks that a measure is 0, or what the drill expects of it.
func zero(m drill.Measure, t tier) check {
	return check{name: string(m), tier: t, live: true, run: func(e *Evaluation) string {
		if h, failed := e.zeroHypothesis(m); failed {
			return e.describeFailure(h)
		}
		return ""
	}}
}

// zeroHypothesis evaluates the drill's expectation of a measure, or that it is 0. It has failed only if something was
// counted.
func (e *Evaluation) zeroHypothesis(m drill.Measure) (h drill.Hypothesis, failed bool) {
	expected := drill.Expectation{Measure: m, Compare: drill.Equal, Unit: m.Unit()}
	if i := slices.IndexFunc(e.Run.Spec.Expect, func(x drill.Expectation) bool { return x.Measure == m }); i >= 0 {
		expected = e.Run.Spec.Expect[i]
	}
	h = evaluate(expected, e.Measure(m))
	return h, h.Measured && !h.Passed && h.Value > 0
}

// hasZeroCheck says whether one of the checks is that a measure is 0.
func hasZeroCheck(m drill.Measure) bool {
	return slices.ContainsFunc(checks, func(c check) bool { return c.name == string(m) })
}

func (e *Evaluation) live() bool { return e.Run.Spec.Target == drill.Live }

// violations runs the checks of a tier; with baseline only those that decide about a baseline.
func (e *Evaluation) violations(t tier, baseline bool) []string {
	var all []string
	for _, c := range checks {
		if c.tier != t || e.live() && !c.live || baseline && !c.baseline {
			continue
		}
		if what := c.run(e); what != "" {
			all = append(all, what)
		}
	}
	return all
}

// ViolationsSoFar says of a run in progress what is broken by now; empty: nothing that is known.
func (e *Evaluation) ViolationsSoFar() string {
	broken := e.violations(invariant, false)
	if e.stalled() == "" {
		broken = append(append(broken, e.violations(unlessBusy, false)...), e.violations(timing, false)...)
	}
	return joinReasons(broken)
}

// BaselinePreconditionFailure says why a baseline cannot be judged; empty: it can.
func (e *Evaluation) BaselinePreconditionFailure() string {
	if stalled := e.stalled(); stalled != "" {
		return stalled
	}
	if all := e.violations(precondition, true); len(all) > 0 {
		return all[0]
	}
	return ""
}
