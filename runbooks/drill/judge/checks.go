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
	{"calls_without_task", invariant, false, false, (*Evaluation).callsWithoutTask},
	{"calls_for_refused_tasks", invariant, false, false, (*Evaluation).callsForRefusedTasks},
	{"duplicate_calls", invariant, false, false, (*Evaluation).duplicateCalls},
	{"answers_without_call", invariant, false, false, (*Evaluation).answersWithoutCall},
	{"answer_mismatch", invariant, true, false, (*Evaluation).answerMismatch},
	{"premature_refusals", invariant, false, false, (*Evaluation).prematureRefusals},
	{"refusals_without_reason", invariant, true, false, (*Evaluation).refusalsWithoutReason},
	{"unexpected_refusal_status", invariant, true, false, (*Evaluation).unexpectedRefusalStatus},
	{"uncleared_faults", invariant, true, false, (*Evaluation).unclearedFaults},
	{"unapplied_requests", invariant, false, false, (*Evaluation).unappliedRequests},
	zero(drill.MissingRetryAfter, invariant),
	zero(drill.OverLimit, invariant),
	zero(drill.FalseCompletions, invariant),
	zero(drill.MessageFaults, invariant),
	zero(drill.ProductionDrift, invariant),

	zero(drill.TasksLost, unlessBusy),

	{"fifo_violations", timing, false, false, (*Evaluation).fifoViolations},
	{"calls_after_deadline", timing, false, false, (*Evaluation).callsAfterDeadline},
	{"idle_workers", timing, false, false, (*Evaluation).idleWorkers},
	{"delayed_answers", timing, true, false, (*Evaluation).delayedAnswers},
	{"underused_workers", timing, false, false, (*Evaluation).underusedWorkers},
	{"delayed_first_bytes", timing, false, false, (*Evaluation).delayedFirstBytes},
	{"slow_refusals", timing, true, false, (*Evaluation).slowRefusals},
	{"queue_over_limit", timing, false, false, (*Evaluation).queueOverLimit},
	{"admitted_over_age", timing, false, false, (*Evaluation).admittedOverAge},
	{"premature_pages", timing, false, false, (*Evaluation).prematurePages},
	{"slow_clearing", timing, true, false, (*Evaluation).slowClearing},
	{"faults_after_clear", timing, true, false, (*Evaluation).faultsAfterClear},
	{"age_limit_ignored", timing, false, false, (*Evaluation).ageLimitIgnored},

	{"telemetry_gap", precondition, true, true, (*Evaluation).telemetryGap},
	{"rate_not_kept", precondition, true, true, (*Evaluation).rateNotKept},
	{"too_few_samples", precondition, true, false, (*Evaluation).tooFewSamples},
	{"burst_mismatch", precondition, true, false, (*Evaluation).burstMismatch},
	{"load_mismatch", precondition, true, false, (*Evaluation).loadMismatch},
	{"endpoint_overloaded", precondition, true, true, (*Evaluation).endpointOverloaded},
	{"service_time_mismatch", precondition, true, true, (*Evaluation).serviceTimeMismatch},
	{"failed_steps", precondition, true, false, (*Evaluation).failedSteps},
	{"unconfirmed_faults", precondition, true, false, (*Evaluation).unconfirmedFaults},
	{"unconfirmed_slack_fault", precondition, true, false, (*Evaluation).unconfirmedSlackFault},
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
	return check{string(m), t, true, false, func(l *Evaluation) string {
		if h, failed := l.zeroHypothesis(m); failed {
			return l.describeFailure(h)
		}
		return ""
	}}
}

// zeroHypothesis evaluates the drill's expectation of a measure, or that it is 0. It has failed only if something was
// counted.
func (l *Evaluation) zeroHypothesis(m drill.Measure) (h drill.Hypothesis, failed bool) {
	e := drill.Expectation{Measure: m, Compare: drill.Equal, Unit: m.Unit()}
	if i := slices.IndexFunc(l.Run.Spec.Expect, func(e drill.Expectation) bool { return e.Measure == m }); i >= 0 {
		e = l.Run.Spec.Expect[i]
	}
	h = evaluate(e, l.Measure(m))
	return h, h.Measured && !h.Passed && h.Value > 0
}

// isZero says whether a measure is among the checks.
func isZero(m drill.Measure) bool {
	return slices.ContainsFunc(checks, func(c check) bool { return c.name == string(m) })
}

func (l *Evaluation) live() bool { return l.Run.Spec.Target == drill.Live }

// violations runs the checks of a tier; with baseline only those that decide about a baseline.
func (l *Evaluation) violations(t tier, baseline bool) []string {
	var all []string
	for _, c := range checks {
		if c.tier != t || l.live() && !c.live || baseline && !c.baseline {
			continue
		}
		if what := c.run(l); what != "" {
			all = append(all, what)
		}
	}
	return all
}

// ViolationsSoFar says of a run in progress what is broken by now; empty: nothing that is known.
func (l *Evaluation) ViolationsSoFar() string {
	broken := l.violations(invariant, false)
	if l.stalled() == "" {
		broken = append(append(broken, l.violations(unlessBusy, false)...), l.violations(timing, false)...)
	}
	return joinReasons(broken)
}

// BaselinePreconditionFailure says why a baseline cannot be judged; empty: it can.
func (l *Evaluation) BaselinePreconditionFailure() string {
	if stalled := l.stalled(); stalled != "" {
		return stalled
	}
	if all := l.violations(precondition, true); len(all) > 0 {
		return all[0]
	}
	return ""
}
