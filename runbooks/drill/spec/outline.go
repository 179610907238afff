package spec

import (
	"fmt"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// Outline says what a run does and touches, in order, a line each.
func Outline(s drill.Spec) []string {
	sc := s.Scenario
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("check production: no open page, no pass-through, no freeze, error budget left")
	if s.Target == drill.Live {
		add("inject faults into the production upstream path of %s", liveScope(s))
	} else {
		add("build a twin with the pool's settings and rules, and its own endpoint; production is not touched")
	}
	add("check on a canary call that faults can be cleared")
	if sc.Baseline > 0 {
		add("for %s: check that the steady state holds", format.Duration(sc.Baseline))
	}
	if sc.Arrivals.Rate > 0 {
		add("for %s: send %v tasks per second", format.Duration(sc.Duration), sc.Arrivals.Rate)
	}
	for _, b := range sc.Arrivals.Bursts {
		add("from %s to %s: %v times as many", format.Duration(b.From), format.Duration(b.To), b.Multiple)
	}
	for _, i := range sc.Faults {
		add("%s", injectionOutline(i, affectedCalls(s)))
	}
	for _, i := range sc.Slack {
		add("%s", injectionOutline(i, "calls to Slack"))
	}
	for _, st := range sc.Steps {
		add("%s", stepOutline(st))
	}
	add("clear all faults, confirm that, and revert steps in reverse order")
	add("for at most %s: wait until the steady state is back", format.Duration(s.Recovery))
	return lines
}

func liveScope(s drill.Spec) string {
	if s.Marked {
		return fmt.Sprintf("tasks with a signed drill header and of no others, %d at most", drill.MaxLiveTasks)
	}
	share := drill.FormatAmount(s.Share, drill.UnitRatio)
	return fmt.Sprintf("%s of the tasks at most, %d in all", share, drill.MaxLiveTasks)
}

func affectedCalls(s drill.Spec) string {
	if s.Marked {
		return "calls of tasks with the header"
	}
	return "calls to the endpoint"
}

func injectionOutline(i drill.Injection, what string) string {
	text := fmt.Sprintf("from %s to %s: fault %s on %s of %s",
		format.Duration(i.From), format.Duration(i.From+i.For), i.Kind, drill.FormatAmount(i.Share, drill.UnitRatio), what)
	switch {
	case i.Jitter > 0:
		text += fmt.Sprintf(" (%s ± %s)", format.Duration(i.Delay), format.Duration(i.Jitter))
	case i.Delay > 0:
		text += fmt.Sprintf(" (%s)", format.Duration(i.Delay))
	case i.Code > 0:
		text += fmt.Sprintf(" (%d)", i.Code)
	}
	return text
}

func stepOutline(st drill.Step) string {
	words := map[drill.StepKind]string{
		drill.StepRollback:   "roll back: pass-through",
		drill.StepRestore:    "restore the gate",
		drill.StepLockRecord: "lock the record",
		drill.StepLoseSlots:  fmt.Sprintf("take %d slots away from the endpoint", st.Count),
	}
	text := "at " + format.Duration(st.At) + ": " + words[st.Kind]
	if st.For > 0 {
		text += ", for " + format.Duration(st.For)
	}
	return text
}
