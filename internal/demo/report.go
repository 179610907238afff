package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteJSON writes the summary as indented JSON.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// Write writes the summary for people, no wider than width except for the widest
// cell of the table.
func (s *Summary) Write(w io.Writer, width int, colour bool) error {
	var b strings.Builder
	for _, l := range s.table(width) {
		b.WriteString(l.render(colour) + "\n")
	}
	b.WriteByte('\n')
	for _, note := range s.Notes {
		b.WriteString(wrap(note, width, "", ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Summary) table(width int) []line {
	l := layoutFor(width)
	g, u := s.Gated, s.Ungated
	out := []line{l.head(), l.row("arrivals", "arrivals", numberCell(g.Arrivals), numberCell(u.Arrivals))}
	out = append(out, l.row("refused at once", "refused", numberCell(g.Refused), numberCell(u.Refused)))
	for _, reason := range refusalReasons(g.ByReason, u.ByReason) {
		out = append(out, l.row("  "+reason, " "+reason, numberCell(g.ByReason[reason]), numberCell(u.ByReason[reason])))
	}
	out = append(out,
		l.row("admitted", "admitted", numberCell(g.Admitted), numberCell(u.Admitted)),
		l.row("answered in time", "in time", numberCell(g.InTime), numberCell(u.InTime)),
		l.row("answered late", "late", alertCell(g.Late), alertCell(u.Late)))
	out = append(out, l.rowUnlessZero("gave up in the queue", "gave up", g.DeadlinePassed, u.DeadlinePassed)...)
	out = append(out, l.rowUnlessZero("failed", "failed", g.Failed, u.Failed)...)
	out = append(out, l.rowUnlessZero("still open at the end", "open", g.Unfinished, u.Unfinished)...)
	return append(out,
		l.row("turnaround p50", "p50", s.turnaround(g, g.Turnaround.P50), s.turnaround(u, u.Turnaround.P50)),
		l.row("turnaround p95", "p95", s.turnaround(g, g.Turnaround.P95), s.turnaround(u, u.Turnaround.P95)),
		l.row("turnaround max", "max", s.turnaround(g, g.Turnaround.Max), s.turnaround(u, u.Turnaround.Max)),
		l.row("longest queue", "queue", numberCell(g.MaxQueue), numberCell(u.MaxQueue)),
		l.row("queue empty, after the burst", "empty after", sinceCell(g.EmptyAfter), sinceCell(u.EmptyAfter)),
		l.row("in time per minute", "useful/min", rateCell(g.PerMinute), rateCell(u.PerMinute)),
		l.row("peak in flight at the endpoint", "peak", numberCell(g.PeakInFlight), numberCell(u.PeakInFlight)))
}

// rowUnlessZero is a row that is left out when it would say nothing.
func (l layout) rowUnlessZero(label, short string, g, u int) []line {
	if g == 0 && u == 0 {
		return nil
	}
	return []line{l.row(label, short, alertCell(g), alertCell(u))}
}

func (s *Summary) turnaround(side Side, seconds float64) cell {
	switch {
	case side.Turnaround.Count == 0:
		return cell{text: "-"}
	case seconds > s.SLO:
		return cell{fmt.Sprintf("%.1f s", seconds), bad}
	}
	return cell{fmt.Sprintf("%.1f s", seconds), good}
}

func sinceCell(seconds *float64) cell {
	if seconds == nil {
		return cell{text: "not seen"}
	}
	return cell{text: fmt.Sprintf("%.0f s", *seconds)}
}

func rateCell(perMinute float64) cell { return cell{text: fmt.Sprintf("%.1f", perMinute)} }

// wrap breaks text into lines of at most width, where it has spaces. The first
// line begins with first, the others with next.
func wrap(text string, width int, first, next string) string {
	var b strings.Builder
	b.WriteString(first)
	used, fresh := len(first), true
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case !fresh && used+1+n > width:
			b.WriteString("\n" + next)
			used = len(next)
		case !fresh:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
		fresh = false
	}
	return b.String() + "\n"
}
