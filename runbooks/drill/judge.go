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
	l := prepare(f)
	hypotheses := l.hypotheses()
	failed, unknown := split(hypotheses)
	hard, soft := parted(failed)
	unsound := l.broken(hard)
	lost, soft := l.lostTasks(soft)
	if l.busyMachine() == "" {
		unsound, lost = append(unsound, lost...), nil
	}
	broken := append(append(lost, l.untimely()...), l.explained(soft)...)
	if !f.Steady {
		broken = append(broken, "after "+formatDuration(f.Run.Spec.Recovery)+" all was not as before: "+f.SteadyWhy)
	}
	unproved := l.unproved()
	if excuse := l.heldUp(); len(broken) > 0 && excuse != "" {
		unproved = append([]string{excuse}, unproved...)
	}
	switch {
	case len(unsound) > 0:
		return Failed, reason(append(unsound, broken...)), hypotheses
	case len(unproved) > 0:
		return Inconclusive, reason(append(unproved, broken...)), hypotheses
	case len(broken) > 0:
		return Failed, reason(broken), hypotheses
	case len(unknown) > 0:
		return Inconclusive, reason(unknownReasons(unknown)), hypotheses
	case len(hypotheses) == 0:
		return Inconclusive, "nothing was checked", hypotheses
	}
	return Passed, l.praise(hypotheses), hypotheses
}

// Hypotheses says how the expectations of a run stand, by what is known so far.
func Hypotheses(f Facts) []Hypothesis { return prepare(f).hypotheses() }

func (l *look) hypotheses() []Hypothesis {
	all := make([]Hypothesis, 0, len(l.Run.Spec.Expect))
	for _, e := range l.Run.Spec.Expect {
		all = append(all, weigh(e, l.measure(e.Measure)))
	}
	return all
}

// weigh puts a reading to its expectation.
func weigh(e Expectation, r Reading) Hypothesis {
	h := Hypothesis{Expectation: e, Known: r.Known, Value: finite(r.Value), Why: r.Why}
	if r.Seen != "" {
		h.Evidence = fmt.Sprintf("%s, %d samples", r.Seen, r.Samples)
	}
	if !r.Known {
		h.Value = 0
		return h
	}
	h.Margin = e.Margin(h.Value)
	h.Passed = e.Holds(h.Value) && !r.Never
	if r.Never {
		h.Margin = min(h.Margin, -1)
	}
	return h
}

func split(all []Hypothesis) (failed, unknown []Hypothesis) {
	for _, h := range all {
		switch {
		case !h.Known:
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
	return []Measure{MissingRetryAfter, OverLimit, FalseEnds, MessageSays, Drift}
}

// parted tells the failures that no bad experiment can explain from the others.
func parted(failed []Hypothesis) (hard, soft []Hypothesis) {
	for _, h := range failed {
		if slices.Contains(alwaysZero(), h.Measure) && h.Value > 0 {
			hard = append(hard, h)
		} else {
			soft = append(soft, h)
		}
	}
	return hard, soft
}

// broken says what is wrong that no load and no fault of the experiment explains.
func (l *look) broken(hard []Hypothesis) []string {
	return append(append(l.unsound(), l.implied(alwaysZero()...)...), l.explained(hard)...)
}

// wrong says of a run that goes on what is broken by now; empty: nothing that is
// known.
func (l *look) wrong() string {
	failed, _ := split(l.hypotheses())
	hard, soft := parted(failed)
	broken := l.broken(hard)
	if l.heldUp() == "" {
		lost, _ := l.lostTasks(soft)
		broken = append(append(broken, lost...), l.untimely()...)
	}
	return reason(broken)
}

// lostTasks says what is wrong with tasks that came to no end that they should have
// come to, and returns the other failures. On a busy machine they may have been given
// up by whoever waited for them.
func (l *look) lostTasks(failed []Hypothesis) (what []string, others []Hypothesis) {
	var lost []Hypothesis
	for _, h := range failed {
		if h.Measure == TasksLost {
			lost = append(lost, h)
		} else {
			others = append(others, h)
		}
	}
	return append(l.explained(lost), l.implied(TasksLost)...), others
}

// busyMachine says that the machine was too busy to judge by time, as the generator
// found; empty: it was not.
func (l *look) busyMachine() string { return cmp.Or(l.heldUp(), l.rate()) }

// heldUp says that the machine was too busy to judge by time; empty: it was not.
func (l *look) heldUp() string {
	var longest Lull
	for _, s := range l.Evidence.Lulls {
		if s.Took > longest.Took {
			longest = s
		}
	}
	if longest.Took <= 2*wallSlack {
		return ""
	}
	return fmt.Sprintf("the generator was held up for %.1f s at %.0f s: the machine is too busy for this speed", longest.Took.Seconds(), longest.At.Seconds())
}

// implied says what is wrong that has to be 0 and that no expectation names.
func (l *look) implied(zero ...Measure) []string {
	var failed []Hypothesis
	for _, m := range zero {
		if slices.ContainsFunc(l.Run.Spec.Expect, func(e Expectation) bool { return e.Measure == m }) {
			continue
		}
		h := weigh(Expectation{Measure: m, Compare: Equal, Unit: m.Unit()}, l.measure(m))
		if h.Known && h.Value > 0 {
			failed = append(failed, h)
		}
	}
	return l.explained(failed)
}

func unknownReasons(all []Hypothesis) []string {
	var out []string
	for _, h := range all {
		out = append(out, fmt.Sprintf("%s is not known: %s", h.Measure, h.Why))
	}
	return out
}

const maxReason = 500

// reason puts what broke into one line, the first three in full.
func reason(all []string) string {
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

// explained says of failed hypotheses which part is broken.
func (l *look) explained(failed []Hypothesis) []string {
	var out []string
	for _, h := range failed {
		text := fmt.Sprintf("%s is %s, and must be %s %s", h.Measure, Amount(h.Value, h.Unit), h.Compare, Amount(h.Limit, h.Unit))
		switch what := l.blame(h); {
		case what != "" && h.Holds(h.Value): // what should have come did not
			text = fmt.Sprintf("%s (%s)", what, h.Measure)
		case what != "":
			text = what + " (" + text + ")"
		}
		out = append(out, text)
	}
	return out
}

// blame names the part that a failed hypothesis points to.
func (l *look) blame(h Hypothesis) string {
	switch h.Measure {
	case RefusedShare:
		switch {
		case h.Value == 0:
			return fmt.Sprintf("nothing was refused although the load was %.1f × what the workers can do: the gate does not refuse", l.load())
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
		return "more calls at once than workers: " + h.Why
	case TimeToWarn, TimeToPage, TimeToResolve:
		if h.Margin <= -1 {
			return h.Why
		}
		return "people were told too late"
	case DrainedWithin:
		return "the queue did not drain: " + h.Why
	}
	return h.Why
}

// load is the highest arrival rate times the time that calls took, over the workers.
func (l *look) load() float64 {
	most := 1.0
	for _, b := range l.spec.Arrivals.Bursts {
		most = max(most, b.Multiple)
	}
	mean := (l.Evidence.ServiceMin + l.Evidence.ServiceMax) / 2
	return l.spec.Arrivals.Rate * most * mean.Seconds() / float64(max(l.Evidence.Workers, 1))
}

// praise says of a run that passed how close it was.
func (l *look) praise(all []Hypothesis) string {
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
		text += fmt.Sprintf("; closest: %s %s, limit %s %s", least.Measure, Amount(least.Value, least.Unit), least.Compare, Amount(least.Limit, least.Unit))
	}
	return text
}
