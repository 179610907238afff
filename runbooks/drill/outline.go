package drill

import (
	"fmt"
	"time"
)

// TotalDuration is how long a run takes at most, in scenario time.
func (s Spec) TotalDuration() time.Duration {
	return s.Scenario.Baseline + s.Scenario.Duration + s.Recovery
}

// Outline says what a run does and touches, in order, a line each. It changes
// nothing.
func (s Spec) Outline() []string {
	sc := s.Scenario
	lines := []string{"check that production is well: no open page, no pass-through, no freeze, budget left"}
	switch s.Target {
	case Live:
		lines = append(lines, "take the production upstream path of "+s.liveScope())
	default:
		lines = append(lines, "build a twin with the pool's settings and rules, and its own endpoint; production is not touched")
	}
	lines = append(lines, "trip the brakes on a canary")
	if sc.Baseline > 0 {
		lines = append(lines, fmt.Sprintf("for %s: see that the steady state holds", formatDuration(sc.Baseline)))
	}
	a := sc.Arrivals
	if a.Rate > 0 {
		lines = append(lines, fmt.Sprintf("for %s: send %v tasks per second", formatDuration(sc.Duration), a.Rate))
	}
	for _, b := range a.Bursts {
		lines = append(lines, fmt.Sprintf("from %s to %s: %v times as many", formatDuration(b.From), formatDuration(b.To), b.Multiple))
	}
	for _, i := range sc.Faults {
		lines = append(lines, i.outline(s.affectedCalls()))
	}
	for _, i := range sc.Slack {
		lines = append(lines, i.outline("calls to Slack"))
	}
	for _, st := range sc.Steps {
		lines = append(lines, st.outline())
	}
	return append(lines,
		"clear all faults, confirm that, and take steps back in reverse",
		fmt.Sprintf("for at most %s: wait until all is as before", formatDuration(s.Recovery)))
}

func (s Spec) liveScope() string {
	if s.Marked {
		return fmt.Sprintf("tasks with a signed drill header and of no others, %d at most", MaxLiveTasks)
	}
	return fmt.Sprintf("%s of the tasks at most, %d in all", FormatAmount(s.Share, UnitRatio), MaxLiveTasks)
}

func (s Spec) affectedCalls() string {
	if s.Marked {
		return "calls of tasks with the header"
	}
	return "calls to the endpoint"
}

func (i Injection) outline(what string) string {
	text := fmt.Sprintf("from %s to %s: %s befalls %s of %s",
		formatDuration(i.From), formatDuration(i.From+i.For), i.Kind, FormatAmount(i.Share, UnitRatio), what)
	switch {
	case i.Jitter > 0:
		text += fmt.Sprintf(" (%s ± %s)", formatDuration(i.Delay), formatDuration(i.Jitter))
	case i.Delay > 0:
		text += fmt.Sprintf(" (%s)", formatDuration(i.Delay))
	case i.Code > 0:
		text += fmt.Sprintf(" (%d)", i.Code)
	}
	return text
}

func (st Step) outline() string {
	words := map[StepKind]string{
		StepRollback:   "take the gate out: pass-through",
		StepRestore:    "put the gate back",
		StepLockRecord: "lock the record",
		StepLoseSlots:  fmt.Sprintf("let the endpoint work on %d calls fewer at once", st.Count),
	}
	text := "at " + formatDuration(st.At) + ": " + words[st.Kind]
	if st.For > 0 {
		text += ", for " + formatDuration(st.For)
	}
	return text
}
