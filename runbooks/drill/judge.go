package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Judge says what came of a run that went through to its end. It passed only if
// nothing that it saw was wrong, if the experiment itself worked, if every
// hypothesis is known and held, and if all was as before within the recovery limit.
// Otherwise the reason names what broke.
func Judge(f Facts) (Verdict, string, []Hypothesis) {
	l := newEvaluation(f)
	hypotheses := l.hypotheses()
	failed, unknown := failedAndUnknown(hypotheses)
	hard, soft := partition(failed)
	unsound := l.unexplainedViolations(hard)
	lost, soft := l.lostTaskViolations(soft)
	if l.machineBusy() == "" {
		unsound, lost = append(unsound, lost...), nil
	}
	broken := append(append(lost, l.timingViolations()...), l.describeFailures(soft)...)
	if !f.SteadyState {
		broken = append(broken, "after "+formatDuration(f.Run.Spec.Recovery)+" all was not as before: "+f.UnsteadyReason)
	}
	unproved := l.preconditionFailures()
	if excuse := l.stalled(); len(broken) > 0 && excuse != "" {
		unproved = append([]string{excuse}, unproved...)
	}
	switch {
	case len(unsound) > 0:
		return Failed, joinReasons(append(unsound, broken...)), hypotheses
	case len(unproved) > 0:
		return Inconclusive, joinReasons(append(unproved, broken...)), hypotheses
	case len(broken) > 0:
		return Failed, joinReasons(broken), hypotheses
	case len(unknown) > 0:
		return Inconclusive, joinReasons(unknownReasons(unknown)), hypotheses
	case len(hypotheses) == 0:
		return Inconclusive, "nothing was checked", hypotheses
	}
	return Passed, l.summary(hypotheses), hypotheses
}

// Hypotheses says how the expectations of a run stand, by what is known so far.
func Hypotheses(f Facts) []Hypothesis { return newEvaluation(f).hypotheses() }

func (l *evaluation) hypotheses() []Hypothesis {
	all := make([]Hypothesis, 0, len(l.Run.Spec.Expect))
	for _, e := range l.Run.Spec.Expect {
		all = append(all, evaluate(e, l.measure(e.Measure)))
	}
	return all
}

// evaluate puts a reading to its expectation.
func evaluate(e Expectation, r Reading) Hypothesis {
	h := Hypothesis{Expectation: e, Measured: r.Measured, Value: finite(r.Value), Reason: r.Reason}
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

func failedAndUnknown(all []Hypothesis) (failed, unknown []Hypothesis) {
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
func alwaysZero() []Measure {
	return []Measure{MissingRetryAfter, OverLimit, FalseCompletions, MessageFaults, ProductionDrift}
}

// partition tells the failures that no bad experiment can explain from the others.
func partition(failed []Hypothesis) (hard, soft []Hypothesis) {
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
func (l *evaluation) unexplainedViolations(hard []Hypothesis) []string {
	return append(append(l.hardViolations(), l.zeroMeasureViolations(alwaysZero()...)...), l.describeFailures(hard)...)
}

// violationsSoFar says of a run that goes on what is broken by now; empty: nothing that is
// known.
func (l *evaluation) violationsSoFar() string {
	failed, _ := failedAndUnknown(l.hypotheses())
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
func (l *evaluation) lostTaskViolations(failed []Hypothesis) (what []string, others []Hypothesis) {
	var lost []Hypothesis
	for _, h := range failed {
		if h.Measure == TasksLost {
			lost = append(lost, h)
		} else {
			others = append(others, h)
		}
	}
	return append(l.describeFailures(lost), l.zeroMeasureViolations(TasksLost)...), others
}

// machineBusy says that the machine was too busy to judge by time, as the generator
// found; empty: it was not.
func (l *evaluation) machineBusy() string { return cmp.Or(l.stalled(), l.rateNotKept()) }

// stalled says that the machine was too busy to judge by time; empty: it was not.
func (l *evaluation) stalled() string {
	var longest Stall
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
func (l *evaluation) zeroMeasureViolations(zero ...Measure) []string {
	var failed []Hypothesis
	for _, m := range zero {
		if slices.ContainsFunc(l.Run.Spec.Expect, func(e Expectation) bool { return e.Measure == m }) {
			continue
		}
		h := evaluate(Expectation{Measure: m, Compare: Equal, Unit: m.Unit()}, l.measure(m))
		if h.Measured && h.Value > 0 {
			failed = append(failed, h)
		}
	}
	return l.describeFailures(failed)
}

func unknownReasons(all []Hypothesis) []string {
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
func (l *evaluation) describeFailures(failed []Hypothesis) []string {
	var out []string
	for _, h := range failed {
		text := fmt.Sprintf("%s is %s, and must be %s %s", h.Measure, FormatAmount(h.Value, h.Unit), h.Compare, FormatAmount(h.Limit, h.Unit))
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
func (l *evaluation) likelyCause(h Hypothesis) string {
	switch h.Measure {
	case RefusedShare:
		switch {
		case h.Value == 0:
			return fmt.Sprintf("nothing was refused although the load was %.1f × what the workers can do: the gate does not refuse", l.loadFactor())
		case h.Value == 1:
			return "everything was refused: the gate lets nothing through"
		case h.Compare == AtLeast:
			return "too little was refused"
		}
		return "too much was refused"
	case ServedShare:
		return "too little was served"
	case LateShare, P95:
		return "what was let in came too late"
	case OverLimit:
		return "more calls at once than workers: " + h.Reason
	case TimeToWarn, TimeToPage, TimeToResolve:
		if h.Margin <= -1 {
			return h.Reason
		}
		return "people were told too late"
	case DrainedWithin:
		return "the queue did not drain: " + h.Reason
	}
	return h.Reason
}

// loadFactor is the highest arrival rate times the time that calls took, over the workers.
func (l *evaluation) loadFactor() float64 {
	most := 1.0
	for _, b := range l.spec.Arrivals.Bursts {
		most = max(most, b.Multiple)
	}
	mean := (l.Evidence.ServiceMin + l.Evidence.ServiceMax) / 2
	return l.spec.Arrivals.Rate * most * mean.Seconds() / float64(max(l.Evidence.Workers, 1))
}

// summary says of a run that passed how close it was.
func (l *evaluation) summary(all []Hypothesis) string {
	least := all[0]
	for _, h := range all {
		if h.Compare != Equal && (least.Compare == Equal || h.Margin < least.Margin) {
			least = h
		}
	}
	text := fmt.Sprintf("all %d hypotheses held", len(all))
	if len(all) == 1 {
		text = "the only hypothesis held"
	}
	if least.Compare != Equal {
		text += fmt.Sprintf("; closest: %s %s, limit %s %s", least.Measure, FormatAmount(least.Value, least.Unit), least.Compare, FormatAmount(least.Limit, least.Unit))
	}
	return text
}
