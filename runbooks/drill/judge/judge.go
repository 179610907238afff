package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// Judge returns the verdict of a run that went through to its end, its reason and its hypotheses. A run passed only if
// no check found a violation, every hypothesis is known and held, and the steady state came back within the recovery
// limit. Otherwise the reason names what broke.
func Judge(f Facts) (drill.Verdict, string, []drill.Hypothesis) {
	e := NewEvaluation(f)
	hypotheses := e.Hypotheses()
	invariantViolations, otherFailures := e.violations(invariant, false), e.violations(unlessBusy, false)
	if e.machineBusy() == "" {
		invariantViolations, otherFailures = append(invariantViolations, otherFailures...), nil
	}
	otherFailures = append(otherFailures, e.violations(timing, false)...)
	var unmeasured []string
	for _, h := range hypotheses {
		switch {
		case !h.Measured:
			unmeasured = append(unmeasured, fmt.Sprintf("%s is not known: %s", h.Measure, h.Reason))
		case !h.Passed && (h.Value == 0 || !hasZeroCheck(h.Measure)): // else a check has named it
			otherFailures = append(otherFailures, e.describeFailure(h))
		}
	}
	if !f.SteadyState {
		limit := format.Duration(f.Run.Spec.Recovery)
		otherFailures = append(otherFailures, "after "+limit+" the steady state did not return: "+f.UnsteadyReason)
	}
	unmetPreconditions := e.violations(precondition, false)
	if stallReason := e.stalled(); len(otherFailures) > 0 && stallReason != "" {
		unmetPreconditions = append([]string{stallReason}, unmetPreconditions...)
	}
	// The precedence: a violated invariant fails the run whatever else is so; then an unmet precondition makes it
	// inconclusive; then any other failure fails it; a value that was not measured makes it inconclusive only without one.
	switch {
	case len(invariantViolations) > 0:
		return drill.Failed, joinReasons(append(invariantViolations, otherFailures...)), hypotheses
	case len(unmetPreconditions) > 0:
		return drill.Inconclusive, joinReasons(append(unmetPreconditions, otherFailures...)), hypotheses
	case len(otherFailures) > 0:
		return drill.Failed, joinReasons(otherFailures), hypotheses
	case len(unmeasured) > 0:
		return drill.Inconclusive, joinReasons(unmeasured), hypotheses
	case len(hypotheses) == 0:
		return drill.Inconclusive, "nothing was checked", hypotheses
	}
	return drill.Passed, e.summary(hypotheses), hypotheses
}

// Hypotheses evaluates the expectations of the run by what is known so far.
func (e *Evaluation) Hypotheses() []drill.Hypothesis {
	all := make([]drill.Hypothesis, 0, len(e.Run.Spec.Expect))
	for _, expected := range e.Run.Spec.Expect {
		all = append(all, evaluate(expected, e.Measure(expected.Measure)))
	}
	return all
}

// evaluate compares a reading with its expectation.
func evaluate(e drill.Expectation, r drill.Reading) drill.Hypothesis {
	h := drill.Hypothesis{Expectation: e, Measured: r.Measured, Value: drill.Finite(r.Value), Reason: r.Reason}
	if r.Source != "" {
		h.Evidence = fmt.Sprintf("%s, %d samples", r.Source, r.Samples)
	}
	if !r.Measured {
		h.Value = 0
		return h
	}
	h.Margin = e.Margin(h.Value)
	h.Passed = e.Holds(h.Value) && !r.NotObserved
	if r.NotObserved {
		h.Margin = min(h.Margin, -1)
	}
	return h
}

// machineBusy says that the machine stalled, or was too busy for the generator to keep its rate; empty: neither.
func (e *Evaluation) machineBusy() string { return cmp.Or(e.stalled(), e.rateNotKept()) }

// stalled says that the machine ran no process for too long to judge by time; empty: it did not stall.
func (e *Evaluation) stalled() string {
	var longest drill.Stall
	for _, s := range e.Evidence.Stalls {
		if s.Took > longest.Took {
			longest = s
		}
	}
	return reasonIf(longest.Took > 2*wallTolerance,
		"the generator was held up for %.1f s at %.0f s: the machine is too busy for this speed",
		longest.Took.Seconds(), longest.At.Seconds())
}

const maxReason = 500

// joinReasons puts what broke into one line, the first three in full.
func joinReasons(all []string) string {
	const most = 3
	more := ""
	if n := len(all) - most; n > 0 {
		all, more = all[:most], fmt.Sprintf("; and %d more", n)
	}
	text := strings.Join(all, "; ")
	return format.Truncate(text, maxReason) + more
}

// describeFailure names what a failed hypothesis shows to be broken.
func (e *Evaluation) describeFailure(h drill.Hypothesis) string {
	text := fmt.Sprintf("%s is %s, and must be %s %s",
		h.Measure, drill.FormatAmount(h.Value, h.Unit), h.Compare, drill.FormatAmount(h.Limit, h.Unit))
	switch what := e.likelyCause(h); {
	case what != "" && h.Holds(h.Value): // something expected did not happen
		return fmt.Sprintf("%s (%s)", what, h.Measure)
	case what != "":
		return what + " (" + text + ")"
	}
	return text
}

// likelyCause names the part that a failed hypothesis points to.
func (e *Evaluation) likelyCause(h drill.Hypothesis) string {
	switch h.Measure {
	case drill.RefusedShare:
		switch {
		case h.Value == 0:
			return fmt.Sprintf("nothing was refused although the load was %.1f × what the workers can do: "+
				"the gate does not refuse", e.loadFactor())
		case h.Value == 1:
			return "everything was refused: the gate lets nothing through"
		case h.Compare == drill.AtLeast:
			return "too little was refused"
		}
		return "too much was refused"
	case drill.ServedShare:
		return "too little was served"
	case drill.LateShare, drill.P95:
		return "admitted tasks finished too late"
	case drill.OverLimit:
		return "more calls at once than workers: " + h.Reason
	case drill.TimeToWarn, drill.TimeToPage, drill.TimeToResolve:
		if h.Margin <= -1 {
			return h.Reason
		}
		return "the notification was too late"
	case drill.DrainedWithin:
		return "the queue did not drain: " + h.Reason
	}
	return h.Reason
}

// loadFactor is the highest arrival rate times the time that calls took, over the workers.
func (e *Evaluation) loadFactor() float64 {
	most := 1.0
	for _, b := range e.spec.Arrivals.Bursts {
		most = max(most, b.Multiple)
	}
	mean := (e.Evidence.ServiceMin + e.Evidence.ServiceMax) / 2
	return e.spec.Arrivals.Rate * most * mean.Seconds() / float64(max(e.Evidence.Workers, 1))
}

// summary says of a run that passed how close it was.
func (e *Evaluation) summary(all []drill.Hypothesis) string {
	least := slices.MinFunc(all, func(a, b drill.Hypothesis) int {
		return cmp.Or(btoi(a.Compare == drill.Equal)-btoi(b.Compare == drill.Equal), cmp.Compare(a.Margin, b.Margin))
	})
	text := fmt.Sprintf("all %d hypotheses held", len(all))
	if len(all) == 1 {
		text = "the only hypothesis held"
	}
	if least.Compare != drill.Equal {
		text += fmt.Sprintf("; closest: %s %s, limit %s %s", least.Measure,
			drill.FormatAmount(least.Value, least.Unit), least.Compare, drill.FormatAmount(least.Limit, least.Unit))
	}
	return text
}
