package demo

import "fmt"

// notes says in a few sentences what the numbers say, and nothing more.
func (s *Summary) notes() []string {
	out := s.loadNotes()
	if s.Slack != nil {
		out = append(out, s.Slack.notes(s.plan.Burst != nil)...)
	}
	return out
}

func (s *Summary) loadNotes() []string {
	var out []string
	if s.Outcome == Interrupted && s.Elapsed < s.Duration {
		out = append(out, fmt.Sprintf("Stopped after %.0f of %.0f s, so this is only part of the picture.", s.Elapsed, s.Duration))
	}
	if s.Gated.Turnaround.Count+s.Ungated.Turnaround.Count == 0 {
		return append(out, "Nothing had been answered yet.")
	}
	quiet := s.Gated.Refused == 0 && s.Gated.missedSLO() == 0 && s.Ungated.missedSLO() == 0
	switch {
	case quiet && s.Outcome == Complete:
		out = append(out, fmt.Sprintf("There was nothing to refuse: with %s everything came in time, and the gate stayed out of the way.",
			countText(s.Workers, "worker", "workers")))
	case quiet:
		out = append(out, "Up to then nothing had been refused, and nothing was over the SLO.")
	default:
		out = append(out, s.gatedNote(), s.ungatedNote())
		out = append(out, s.comparison()...)
	}
	return append(out, s.caveats()...)
}

func (s *Summary) gatedNote() string {
	g := s.Gated
	text := fmt.Sprintf("With the gate, %s refused at once", shareText(g.Refused, g.Arrivals))
	if g.Turnaround.Count == 0 {
		return text + "."
	}
	return text + fmt.Sprintf(", and the p95 turnaround of what was let in %s.", s.sloText(g.Turnaround.P95))
}

// sloText says where a turnaround lies.
func (s *Summary) sloText(p95 float64) string {
	if p95 <= s.SLO {
		return fmt.Sprintf("stayed within the SLO: %.0f of %.0f s", p95, s.SLO)
	}
	return fmt.Sprintf("did not stay within the SLO: %.0f s, with %.0f s promised", p95, s.SLO)
}

func (s *Summary) ungatedNote() string {
	u := s.Ungated
	if u.missedSLO() == 0 && u.Unfinished > 0 {
		return fmt.Sprintf("Without it the queue grew to %d, and nothing was over the SLO yet.", u.MaxQueue)
	}
	if u.missedSLO() == 0 {
		return fmt.Sprintf("Without it the queue grew to %d and everything still came in time.", u.MaxQueue)
	}
	text := fmt.Sprintf("Without it the same arrivals made a queue of up to %d, and %s over the SLO", u.MaxQueue, shareText(u.missedSLO(), u.Admitted))
	if u.Turnaround.Count == 0 {
		return text + "."
	}
	return text + fmt.Sprintf(" (p95 %.0f s).", u.Turnaround.P95)
}

// comparison weighs the two sides by what was of use to somebody.
func (s *Summary) comparison() []string {
	g, u := s.Gated, s.Ungated
	var out []string
	switch {
	case g.InTime > u.InTime:
		out = append(out, fmt.Sprintf("Answered in time: %d with the gate, %d without.", g.InTime, u.InTime))
	case g.InTime < u.InTime:
		out = append(out, fmt.Sprintf("Fewer were answered in time with the gate (%d) than without (%d): refusing has its price when the overload is short.", g.InTime, u.InTime))
	}
	if bad := g.Late + g.DeadlinePassed + g.UnfinishedOver; bad > 0 {
		out = append(out, fmt.Sprintf("The gate let in %d that came late or waited in vain (%.0f %% of what it let in): its rule looks at the queue when a task arrives, and what is let in goes on ageing.",
			bad, 100*float64(bad)/float64(max(g.Admitted, 1))))
	}
	return out
}

// caveats are what might be held against the numbers.
func (s *Summary) caveats() []string {
	var out []string
	if s.Outcome == DrainLimit {
		out = append(out, fmt.Sprintf("The backlog was not waited for to its end: %d with the gate and %d without were still open after %.0f s.",
			s.Gated.Unfinished, s.Ungated.Unfinished, s.Elapsed))
	}
	if n := s.Gated.Failed + s.Ungated.Failed; n > 0 {
		out = append(out, fmt.Sprintf("%s failed, which the demo does not expect.", countText(n, "call", "calls")))
	}
	for _, side := range []Side{s.Gated, s.Ungated} {
		if side.RateNote != "" {
			out = append(out, "This machine did not keep the pace, so take the numbers with care: "+side.RateNote+".")
			break
		}
	}
	return out
}

// shareText is "3 of 10 were", with the share when there is one.
func shareText(n, all int) string {
	verb := "were"
	if n == 1 {
		verb = "was"
	}
	if all == 0 {
		return "none was"
	}
	return fmt.Sprintf("%d of %d (%.0f %%) %s", n, all, 100*float64(n)/float64(all), verb)
}

func countText(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
