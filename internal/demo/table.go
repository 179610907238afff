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

func number(n int) cell { return cell{text: fmt.Sprint(n)} }

// seconds is a time, or a dash when there is none.
func seconds(d time.Duration, known bool) cell {
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

// alarm colours a number that should be 0.
func alarm(n int) cell {
	if n > 0 {
		return cell{fmt.Sprint(n), bad}
	}
	return number(n)
}

// table is the live numbers of both sides.
func table(s State, p Plan, width int) []line {
	l := layoutFor(width)
	g, u := s.Gated, s.Ungated
	slo := fmt.Sprintf("%.0f s", p.SLO.Seconds())
	out := []line{
		l.head(),
		l.row("arrivals", "arrivals", number(g.Arrivals), number(u.Arrivals)),
		l.row("admitted", "admitted", number(g.Admitted), number(u.Admitted)),
		l.row(fmt.Sprintf("in flight (of %d)", p.Workers), "in flight", number(g.InFlight), number(u.InFlight)),
		l.row("queued", "queued", number(g.Queued), number(u.Queued)),
		l.row("oldest in the queue", "oldest", seconds(g.Oldest, true), seconds(u.Oldest, true)),
		l.row("p95 turnaround, last 60 s", "p95, 60 s", against(g, p.SLO), against(u, p.SLO)),
		l.row("over the SLO of "+slo, "over "+slo, alarm(g.Over), alarm(u.Over)),
		l.row("answered in time", "in time", number(g.InTime), number(u.InTime)),
		l.row("refused", "refused", number(g.Turned()), number(u.Turned())),
	}
	for _, reason := range reasons(g.Refused, u.Refused, "queue_age", "queue_depth") {
		out = append(out, l.row("  "+reason, " "+reason, number(g.Refused[reason]), number(u.Refused[reason])))
	}
	return out
}

// against is the p95 with a mark that says how it stands to the SLO.
func against(r Reading, slo time.Duration) cell {
	c := seconds(r.P95, r.Ended > 0)
	switch {
	case r.Ended == 0:
	case r.P95 > slo:
		c.text, c.style = "OVER  "+c.text, bad
	default:
		c.text, c.style = "ok  "+c.text, good
	}
	return c
}

// reasons are the given ones and all that occurred, in order.
func reasons(a, b map[string]int, always ...string) []string {
	all := map[string]int{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	for _, reason := range always {
		all[reason] = 0
	}
	return slices.Sorted(maps.Keys(all))
}
