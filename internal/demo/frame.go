package demo

import "fmt"

// maxWidth is what the live view uses of a wide terminal.
const maxWidth = 100

// frame draws the live view for a terminal of this size. It never has more lines
// than fit above the cursor, nor wider ones.
func frame(s State, p Plan, width, height int) []line {
	width = min(width, maxWidth)
	lines := append([]line{phaseLine(s, p, width), nil}, table(s, p, width)...)
	lines = append(lines, s.Alerts.frameLines()...)
	lines = append(lines, nil)
	foot := plain("waiting over time; ━ is the burst")
	// What is left of the height goes to the two charts.
	if rows := min((height-len(lines)-3)/2, 4); rows > 0 {
		lines = append(lines, queueCharts(s, p, width, rows)...)
		lines = append(lines, line{{foot[0].text, faint}})
	}
	out := make([]line, 0, len(lines))
	for _, l := range lines[:max(min(len(lines), height-1), 0)] {
		out = append(out, l.truncate(width))
	}
	return out
}

// phaseLine says what goes on, and how far it has got.
func phaseLine(s State, p Plan, width int) line {
	what, look := phaseText(s, p)
	total := fmt.Sprintf("%4.0f of %.0f s", s.At.Seconds(), p.Duration.Seconds())
	if s.At >= p.Duration {
		total = fmt.Sprintf("%4.0f s", s.At.Seconds())
	}
	head := fmt.Sprintf("%-*s", phaseWidth, what)
	bar := width - phaseWidth - len(total) - 4
	if bar < 8 {
		return line{{what + "  ", look}, {total, normal}}
	}
	return line{{head + "  ", look}, {progressBar(s.At.Seconds()/p.Duration.Seconds(), bar), faint}, {"  " + total, normal}}
}

// phaseWidth is the width of the longest phaseText in use.
const phaseWidth = 36

func phaseText(s State, p Plan) (string, style) {
	switch {
	case s.Outcome == Complete:
		return "done", strong
	case s.Outcome != "":
		return "stopped", strong
	case s.Phase == Baseline:
		return fmt.Sprintf("baseline: load %.2f of capacity", p.Load(1)), normal
	case s.Phase == Burst && p.Burst != nil:
		return fmt.Sprintf("BURST: load %.2f of capacity", p.Load(p.Burst.Multiple)), warn
	case s.Phase == Settling:
		return "until the incidents are over", normal
	case s.Phase == After:
		return fmt.Sprintf("after the burst: load %.2f", p.Load(1)), normal
	}
	return fmt.Sprintf("draining: about %.0f s to go", s.DrainEstimate.Seconds()), normal
}

// frameLines say how the gate stands, which incidents are open, and what was said last.
func (a *AlertState) frameLines() []line {
	if a == nil {
		return nil
	}
	open := segment{"none", normal}
	if a.Warns > 0 {
		open = segment{fmt.Sprintf("%d warn", a.Warns), warn}
	}
	if a.Pages > 0 {
		open = segment{fmt.Sprintf("%d page, %d warn", a.Pages, a.Warns), bad}
	}
	last := a.LastMessage
	if last == "" {
		last = "nothing has been said yet"
	}
	return []line{
		nil,
		a.modeLine(),
		{{"incidents open: ", normal}, open, {fmt.Sprintf("  (%d so far)", a.Opened), faint}},
		{{"Slack: ", normal}, {last, normal}},
	}
}

// modeLine says whether the gate is in, and who took it out.
func (a *AlertState) modeLine() line {
	if a.Mode == "enforce" {
		return line{{"gate: ", normal}, {a.Mode, good}}
	}
	return line{{"gate: ", normal}, {a.Mode, bad}, {"  by " + actorName(a.By), faint}}
}
