package spec

import (
	"fmt"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// Outline says what a run does and touches, in order, a line each.
func Outline(s drill.Spec) []string {
	sc := s.Scenario
	lines := []string{"check production: no open page, no pass-through, no freeze, error budget left"}
	switch s.Target {
	case drill.Live:
		lines = append(lines, "inject faults into the production upstream path of "+liveScope(s))
	default:
		lines = append(lines, "build a twin with the pool's settings and rules, and its own endpoint; production is not touched")
	}
	lines = append(lines, "check on a canary call that faults can be cleared")
	if sc.Baseline > 0 {
		lines = append(lines, fmt.Sprintf("for %s: check that the steady state holds", format.Duration(sc.Baseline)))
	}
	a := sc.Arrivals
	if a.Rate > 0 {
		lines = append(lines, fmt.Sprintf("for %s: send %v tasks per second", format.Duration(sc.Duration), a.Rate))
	}
	for _, b := range a.Bursts {
		lines = append(lines, fmt.Sprintf("from %s to %s: %v times as many", format.Duration(b.From), format.Duration(b.To), b.Multiple))
	}
	for _, i := range sc.Faults {
		lines = append(lines, injectionOutline(i, affectedCalls(s)))
	}
	for _, i := range sc.Slack {
		lines = append(lines, injectionOutline(i, "calls to Slack"))
	}
	for _, st := range sc.Steps {
		lines = append(lines, stepOutline(st))
	}
	return append(lines,
		"clear all faults, confirm that, and revert steps in reverse order",
		fmt.Sprintf("for at most %s: wait until the steady state is back", format.Duration(s.Recovery)))
}

func liveScope(s drill.Spec) string {
	if s.Marked {
		return fmt.Sprintf("tasks with a signed drill header and of no others, %d at most", drill.MaxLiveTasks)
	}
	return fmt.Sprintf("%s of the tasks at most, %d in all", drill.FormatAmount(s.Share, drill.UnitRatio), drill.MaxLiveTasks)
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
