package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"headgate/runbooks/drill"
)

// Judge says what came of a run that went through to its end. It passed only if
// nothing that it saw was wrong, if the experiment itself worked, if every
// hypothesis is known and held, and if all was as before within the recovery limit.
// Otherwise the reason names what broke.
func Judge(f Facts) (drill.Verdict, string, []drill.Hypothesis) {
	l := NewEvaluation(f)
	hypotheses := l.Hypotheses()
	failed, unknown := failedAndUnknown(hypotheses)
	hard, soft := partition(failed)
	unsound := l.unexplainedViolations(hard)
	lost, soft := l.lostTaskViolations(soft)
	if l.machineBusy() == "" {
		unsound, lost = append(unsound, lost...), nil
	}
	broken := append(append(lost, l.timingViolations()...), l.describeFailures(soft)...)
	if !f.SteadyState {
		broken = append(broken, "after "+drill.FormatDuration(f.Run.Spec.Recovery)+" all was not as before: "+f.UnsteadyReason)
	}
	unproved := l.preconditionFailures()
	if excuse := l.stalled(); len(broken) > 0 && excuse != "" {
		unproved = append([]string{excuse}, unproved...)
	}
	switch {
	case len(unsound) > 0:
		return drill.Failed, joinReasons(append(unsound, broken...)), hypotheses
	case len(unproved) > 0:
		return drill.Inconclusive, joinReasons(append(unproved, broken...)), hypotheses
	case len(broken) > 0:
		return drill.Failed, joinReasons(broken), hypotheses
	case len(unknown) > 0:
		return drill.Inconclusive, joinReasons(unknownReasons(unknown)), hypotheses
	case len(hypotheses) == 0:
		return drill.Inconclusive, "nothing was checked", hypotheses
	}
	return drill.Passed, l.summary(hypotheses), hypotheses
}

// Hypotheses says how the expectations of a run stand, by what is known so far.
func Hypotheses(f Facts) []drill.Hypothesis { return NewEvaluation(f).Hypotheses() }

// Hypotheses evaluates the expectations of the run by what is known so far.
func (l *Evaluation) Hypotheses() []drill.Hypothesis {
	all := make([]drill.Hypothesis, 0, len(l.Run.Spec.Expect))
	for _, e := range l.Run.Spec.Expect {
		all = append(all, evaluate(e, l.Measure(e.Measure)))
	}
	return all
}

// evaluate puts a reading to its expectation.
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

func failedAndUnknown(all []drill.Hypothesis) (failed, unknown []drill.Hypothesis) {
	for _, h := range all {
		switch {
		case !h.Measured:
			unknown = append(unknown, h)
		case !h.Passed:
			failed = append(failed, h)
		}
	}
	return failed, unknown
}

// alwaysZero are the measures that are 0 with a gate that works, whatever happens and
// however busy its machine is.
func alwaysZero() []drill.Measure {
	return []drill.Measure{drill.MissingRetryAfter, drill.OverLimit, drill.FalseCompletions, drill.MessageFaults, drill.ProductionDrift}
}

// partition tells the failures that no bad experiment can explain from the others.
func partition(failed []drill.Hypothesis) (hard, soft []drill.Hypothesis) {
	for _, h := range failed {
		if slices.Contains(alwaysZero(), h.Measure) && h.Value > 0 {
			hard = append(hard, h)
		} else {
			soft = append(soft, h)
		}
	}
	return hard, soft
}

// unexplainedViolations says what is wrong that no load and no fault of the experiment explains.
func (l *Evaluation) unexplainedViolations(hard []drill.Hypothesis) []string {
	return append(append(l.hardViolations(), l.zeroMeasureViolations(alwaysZero()...)...), l.describeFailures(hard)...)
}

// ViolationsSoFar says of a run that goes on what is broken by now; empty: nothing that is
// known.
func (l *Evaluation) ViolationsSoFar() string {
	failed, _ := failedAndUnknown(l.Hypotheses())
	hard, soft := partition(failed)
	broken := l.unexplainedViolations(hard)
	if l.stalled() == "" {
		lost, _ := l.lostTaskViolations(soft)
		broken = append(append(broken, lost...), l.timingViolations()...)
	}
	return joinReasons(broken)
}

// lostTaskViolations says what is wrong with tasks that came to no end that they should have
// come to, and returns the other failures. On a busy machine they may have been given
// up by whoever waited for them.
func (l *Evaluation) lostTaskViolations(failed []drill.Hypothesis) (what []string, others []drill.Hypothesis) {
	var lost []drill.Hypothesis
	for _, h := range failed {
		if h.Measure == drill.TasksLost {
			lost = append(lost, h)
		} else {
			others = append(others, h)
		}
	}
	return append(l.describeFailures(lost), l.zeroMeasureViolations(drill.TasksLost)...), others
}

// machineBusy says that the machine was too busy to judge by time, as the generator
// found; empty: it was not.
func (l *Evaluation) machineBusy() string { return cmp.Or(l.stalled(), l.rateNotKept()) }

// stalled says that the machine was too busy to judge by time; empty: it was not.
func (l *Evaluation) stalled() string {
	var longest drill.Stall
	for _, s := range l.Evidence.Stalls {
		if s.Took > longest.Took {
			longest = s
		}
	}
	if longest.Took <= 2*wallTolerance {
		return ""
	}
	return fmt.Sprintf("the generator was held up for %.1f s at %.0f s: the machine is too busy for this speed", longest.Took.Seconds(), longest.At.Seconds())
}

// zeroMeasureViolations says what is wrong that has to be 0 and that no expectation names.
func (l *Evaluation) zeroMeasureViolations(zero ...drill.Measure) []string {
	var failed []drill.Hypothesis
	for _, m := range zero {
		if slices.ContainsFunc(l.Run.Spec.Expect, func(e drill.Expectation) bool { return e.Measure == m }) {
			continue
		}
		h := evaluate(drill.Expectation{Measure: m, Compare: drill.Equal, Unit: m.Unit()}, l.Measure(m))
		if h.Measured && h.Value > 0 {
			failed = append(failed, h)
		}
	}
	return l.describeFailures(failed)
}

func unknownReasons(all []drill.Hypothesis) []string {
	var out []string
	for _, h := range all {
		out = append(out, fmt.Sprintf("%s is not known: %s", h.Measure, h.Reason))
	}
	return out
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
	if runes := []rune(text); len(runes) > maxReason {
		text = string(runes[:maxReason]) + "…"
	}
	return text + more
}

// describeFailures says of failed hypotheses which part is broken.
func (l *Evaluation) describeFailures(failed []drill.Hypothesis) []string {
	var out []string
	for _, h := range failed {
		text := fmt.Sprintf("%s is %s, and must be %s %s", h.Measure, drill.FormatAmount(h.Value, h.Unit), h.Compare, drill.FormatAmount(h.Limit, h.Unit))
		switch what := l.likelyCause(h); {
		case what != "" && h.Holds(h.Value): // what should have come did not
			text = fmt.Sprintf("%s (%s)", what, h.Measure)
		case what != "":
			text = what + " (" + text + ")"
		}
		out = append(out, text)
	}
	return out
}

// likelyCause names the part that a failed hypothesis points to.
func (l *Evaluation) likelyCause(h drill.Hypothesis) string {
	switch h.Measure {
	case drill.RefusedShare:
		switch {
		case h.Value == 0:
			return fmt.Sprintf("nothing was refused although the load was %.1f × what the workers can do: the gate does not refuse", l.loadFactor())
		case h.Value == 1:
			return "everything was refused: the gate lets nothing through"
		case h.Compare == drill.AtLeast:
			return "too little was refused"
		}
		return "too much was refused"
	case drill.ServedShare:
		return "too little was served"
	case drill.LateShare, drill.P95:
		return "what was let in came too late"
	case drill.OverLimit:
		return "more calls at once than workers: " + h.Reason
	case drill.TimeToWarn, drill.TimeToPage, drill.TimeToResolve:
		if h.Margin <= -1 {
			return h.Reason
		}
		return "people were told too late"
	case drill.DrainedWithin:
		return "the queue did not drain: " + h.Reason
	}
	return h.Reason
}

// loadFactor is the highest arrival rate times the time that calls took, over the workers.
func (l *Evaluation) loadFactor() float64 {
	most := 1.0
	for _, b := range l.spec.Arrivals.Bursts {
		most = max(most, b.Multiple)
	}
	mean := (l.Evidence.ServiceMin + l.Evidence.ServiceMax) / 2
	return l.spec.Arrivals.Rate * most * mean.Seconds() / float64(max(l.Evidence.Workers, 1))
}

// summary says of a run that passed how close it was.
func (l *Evaluation) summary(all []drill.Hypothesis) string {
	least := all[0]
	for _, h := range all {
		if h.Compare != drill.Equal && (least.Compare == drill.Equal || h.Margin < least.Margin) {
			least = h
		}
	}
	text := fmt.Sprintf("all %d hypotheses held", len(all))
	if len(all) == 1 {
		text = "the only hypothesis held"
	}
	if least.Compare != drill.Equal {
		text += fmt.Sprintf("; closest: %s %s, limit %s %s", least.Measure, drill.FormatAmount(least.Value, least.Unit), least.Compare, drill.FormatAmount(least.Limit, least.Unit))
	}
	return text
}
