package demo

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// layout is how wide the columns of a table are.
type layout struct {
	label, value int
	short        bool // labels for a narrow terminal
}

func layoutFor(width int) layout {
	if width >= 66 {
		return layout{label: 30, value: 17}
	}
	return layout{label: 16, value: 11, short: true}
}

// cell is a value in a table, with a mark behind it.
type cell struct {
	text  string
	style style
}

func numberCell(n int) cell { return cell{text: fmt.Sprint(n)} }

// secondsCell is a time, or a dash when there is none.
func secondsCell(d time.Duration, known bool) cell {
	if !known {
		return cell{text: "-"}
	}
	return cell{text: fmt.Sprintf("%.1f s", d.Seconds())}
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

func (l layout) head() line {
	r := l.row("", "", cell{text: "with the gate"}, cell{text: "without"})
	if l.short {
		r = l.row("", "", cell{text: "gate"}, cell{text: "no gate"})
	}
	return line{{r[0].text + r[1].text + r[2].text, strong}}
}

// alertCell colours a number that should be 0.
func alertCell(n int) cell {
	if n > 0 {
		return cell{fmt.Sprint(n), bad}
	}
	return numberCell(n)
}

// table is the live numbers of both sides.
func table(s State, p Plan, width int) []line {
	l := layoutFor(width)
	g, u := s.Gated, s.Ungated
	slo := fmt.Sprintf("%.0f s", p.SLO.Seconds())
	out := []line{
		l.head(),
		l.row("arrivals", "arrivals", numberCell(g.Arrivals), numberCell(u.Arrivals)),
		l.row("admitted", "admitted", numberCell(g.Admitted), numberCell(u.Admitted)),
		l.row(fmt.Sprintf("in flight (of %d)", p.Workers), "in flight", numberCell(g.InFlight), numberCell(u.InFlight)),
		l.row("queued", "queued", numberCell(g.Queued), numberCell(u.Queued)),
		l.row("oldest in the queue", "oldest", secondsCell(g.Oldest, true), secondsCell(u.Oldest, true)),
		l.row("p95 turnaround, last 60 s", "p95, 60 s", p95Cell(g, p.SLO), p95Cell(u, p.SLO)),
		l.row("over the SLO of "+slo, "over "+slo, alertCell(g.OverSLO), alertCell(u.OverSLO)),
		l.row("answered in time", "in time", numberCell(g.InTime), numberCell(u.InTime)),
		l.row("refused", "refused", numberCell(g.TotalRefused()), numberCell(u.TotalRefused())),
	}
	for _, reason := range refusalReasons(g.Refused, u.Refused, "queue_age", "queue_depth") {
		out = append(out, l.row("  "+reason, " "+reason, numberCell(g.Refused[reason]), numberCell(u.Refused[reason])))
	}
	return out
}

// p95Cell is the p95 with a mark that says how it stands to the SLO.
func p95Cell(r Reading, slo time.Duration) cell {
	c := secondsCell(r.P95, r.Ended > 0)
	switch {
	case r.Ended == 0:
	case r.P95 > slo:
		c.text, c.style = "OVER  "+c.text, bad
	default:
		c.text, c.style = "ok  "+c.text, good
	}
	return c
}

// refusalReasons are the given ones and all that occurred, in order.
func refusalReasons(a, b map[string]int, always ...string) []string {
	all := map[string]int{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	for _, reason := range always {
		all[reason] = 0
	}
	return slices.Sorted(maps.Keys(all))
}
