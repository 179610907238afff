package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	maxWidth   = 100 // of a frame on a wide terminal
	phaseWidth = 36  // of the longest phaseText in use
)

// frame draws the live view for a terminal of this size. Its lines fit the width, and
// their number leaves room for the cursor.
func frame(s State, p Plan, width, height int) []line {
	width = min(width, maxWidth)
	lines := append([]line{phaseLine(s, p, width), nil}, table(s, p, width)...)
	lines = append(lines, s.Alerts.frameLines()...)
	lines = append(lines, nil)
	// The charts get the rest of the height.
	if rows := min((height-len(lines)-3)/2, 4); rows > 0 {
		lines = append(lines, queueCharts(s, p, width, rows)...)
		lines = append(lines, line{{"queue length over time; ━ is the burst", faint}})
	}
	out := make([]line, 0, len(lines))
	for _, l := range lines[:max(min(len(lines), height-1), 0)] {
		out = append(out, l.truncate(width))
	}
	return out
}

// phaseLine shows the phase and the progress.
func phaseLine(s State, p Plan, width int) line {
	what, look := phaseText(s, p)
	total := fmt.Sprintf("%4.0f of %.0f s", s.At.Seconds(), p.Duration.Seconds())
	if s.At >= p.Duration {
		total = fmt.Sprintf("%4.0f s", s.At.Seconds())
	}
	bar := width - phaseWidth - len(total) - 4
	if bar < 8 {
		return line{{what + "  ", look}, {total, normal}}
	}
	return line{{fmt.Sprintf("%-*s  ", phaseWidth, what), look}, {progressBar(s.At.Seconds()/p.Duration.Seconds(), bar), faint}, {"  " + total, normal}}
}

// phaseText names the phase, with the load as a share of the capacity.
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
		return "waiting for incidents to end", normal
	case s.Phase == After:
		return fmt.Sprintf("after the burst: load %.2f", p.Load(1)), normal
	}
	return fmt.Sprintf("draining: about %.0f s to go", s.DrainEstimate.Seconds()), normal
}

// frameLines show the mode of the gate, open incidents and the latest message.
func (a *AlertState) frameLines() []line {
	if a == nil {
		return nil
	}
	mode := line{{"gate: ", normal}, {a.Mode, good}}
	if a.Mode != "enforce" {
		mode = line{{"gate: ", normal}, {a.Mode, bad}, {"  by " + actorName(a.By), faint}}
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
		last = "no message yet"
	}
	return []line{nil, mode, {{"incidents open: ", normal}, open, {fmt.Sprintf("  (%d so far)", a.Opened), faint}}, {{"Slack: ", normal}, {last, normal}}}
}

// layout is the width of the columns of a table.
type layout struct {
	label, value int
	short        bool // labels for a narrow terminal
}

// layoutFor selects short labels for terminals narrower than 66 columns.
func layoutFor(width int) layout {
	if width >= 66 {
		return layout{label: 30, value: 17}
	}
	return layout{label: 16, value: 11, short: true}
}

// cell is a value in a table.
type cell struct {
	text  string
	style style
}

// row is one line of a table: label, gated, ungated.
func (l layout) row(label, short string, gated, ungated cell) line {
	if l.short {
		label = short
	}
	return line{
		{fmt.Sprintf("%-*s", l.label, label), normal},
		{fmt.Sprintf("%*s", l.value, gated.text), gated.style},
		{fmt.Sprintf("%*s", l.value, ungated.text), ungated.style},
	}
}

// counts is a row of two numbers.
func (l layout) counts(label, short string, gated, ungated int) line {
	return l.row(label, short, cell{text: fmt.Sprint(gated)}, cell{text: fmt.Sprint(ungated)})
}

// failures is a row of two numbers that should be 0.
func (l layout) failures(label, short string, gated, ungated int) line {
	c := func(n int) cell {
		if n > 0 {
			return cell{fmt.Sprint(n), bad}
		}
		return cell{text: "0"}
	}
	return l.row(label, short, c(gated), c(ungated))
}

// reasons are rows of refusals by reason: the given reasons, and all that occurred.
func (l layout) reasons(gated, ungated map[string]int, always ...string) (out []line) {
	for _, reason := range refusalReasons(gated, ungated, always...) {
		out = append(out, l.counts("  "+reason, " "+reason, gated[reason], ungated[reason]))
	}
	return out
}

func (l layout) head() line {
	r := l.row("", "", cell{text: "with the gate"}, cell{text: "without"})
	if l.short {
		r = l.row("", "", cell{text: "gate"}, cell{text: "no gate"})
	}
	return line{{r[0].text + r[1].text + r[2].text, strong}}
}

// table shows the live numbers of both sides.
func table(s State, p Plan, width int) []line {
	l := layoutFor(width)
	g, u := s.Gated, s.Ungated
	slo := fmt.Sprintf("%.0f s", p.SLO.Seconds())
	oldest := func(r Reading) cell { return cell{text: fmt.Sprintf("%.1f s", r.Oldest.Seconds())} }
	return append([]line{
		l.head(),
		l.counts("arrivals", "arrivals", g.Arrivals, u.Arrivals),
		l.counts("admitted", "admitted", g.Admitted, u.Admitted),
		l.counts(fmt.Sprintf("in flight (of %d)", p.Workers), "in flight", g.InFlight, u.InFlight),
		l.counts("queued", "queued", g.Queued, u.Queued),
		l.row("oldest in the queue", "oldest", oldest(g), oldest(u)),
		l.row("p95 turnaround, last 60 s", "p95, 60 s", p95Cell(g, p.SLO), p95Cell(u, p.SLO)),
		l.failures("over the SLO of "+slo, "over "+slo, g.OverSLO, u.OverSLO),
		l.counts("answered in time", "in time", g.InTime, u.InTime),
		l.counts("refused", "refused", g.TotalRefused(), u.TotalRefused()),
	}, l.reasons(g.Refused, u.Refused, "queue_age", "queue_depth")...)
}

// p95Cell is the p95 with a mark that compares it with the SLO.
func p95Cell(r Reading, slo time.Duration) cell {
	text := fmt.Sprintf("%.1f s", r.P95.Seconds())
	switch {
	case r.Ended == 0:
		return cell{text: "-"}
	case r.P95 > slo:
		return cell{"OVER  " + text, bad}
	default:
		return cell{"ok  " + text, good}
	}
}

// refusalReasons are the given reasons and all that occurred, sorted.
func refusalReasons(a, b map[string]int, always ...string) []string {
	all := map[string]int{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	for _, reason := range always {
		all[reason] = 0
	}
	return slices.Sorted(maps.Keys(all))
}

// barRunes are the eighths of a character cell.
var barRunes = []rune(" ▁▂▃▄▅▆▇█")

// bars draws values as columns over a number of rows, top row first. A value above 0
// is always visible.
func bars(values []int, top, rows int) []string {
	out := make([]string, rows)
	for row := range rows {
		var b strings.Builder
		for _, v := range values {
			eighths := 0
			if v > 0 && top > 0 {
				eighths = max(v*rows*8/top, 1)
			}
			b.WriteRune(barRunes[min(max(eighths-(rows-1-row)*8, 0), 8)])
		}
		out[row] = b.String()
	}
	return out
}

func progressBar(share float64, width int) string {
	full := min(max(int(share*float64(width)+0.5), 0), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// queueCharts draws both queues on one scale, above a line that marks the burst.
func queueCharts(s State, p Plan, width, rows int) []line {
	const label = 11 // "without 123"
	width = max(width-label-1, 1)
	span := max(p.Duration, s.At)
	past := max(int(float64(width)*s.At.Seconds()/span.Seconds()), 1) // columns up to now
	top := max(maxDepth(s.Gated.Depth), maxDepth(s.Ungated.Depth))
	var out []line
	for _, side := range []struct {
		name  string
		steps []Step
		style style
	}{{"with", s.Gated.Depth, good}, {"without", s.Ungated.Depth, warn}} {
		for row, text := range bars(bucketMax(side.steps, past, s.At), top, rows) {
			head := ""
			if row == rows-1 {
				head = fmt.Sprintf("%-7s %3d", side.name, maxDepth(side.steps))
			}
			out = append(out, line{{fmt.Sprintf("%-*s ", label, head), normal}, {text, side.style}})
		}
	}
	return append(out, axis(p, span, width, label))
}

// axis marks the burst and the end of the load below the charts.
func axis(p Plan, span time.Duration, width, label int) line {
	marks := []rune(strings.Repeat("·", width))
	column := func(at time.Duration) int {
		return min(int(float64(width)*at.Seconds()/span.Seconds()), width)
	}
	if p.Burst != nil {
		for c := column(p.Burst.From); c < column(p.Burst.To); c++ {
			marks[c] = '━'
		}
	}
	for c := column(p.Duration); c < width; c++ {
		marks[c] = ' '
	}
	return line{{fmt.Sprintf("%-*s ", label, "arrivals"), faint}, {string(marks), faint}}
}
