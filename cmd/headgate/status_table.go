package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"headgate/proxy/admission"
	"headgate/web/api"
)

// table draws the pools, and below them what a person should know of each.
func (v *statusView) table(w io.Writer, s *api.Status) error {
	var b bytes.Buffer
	rows := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "POOL\tMODE\tIN FLIGHT\tQUEUED\tOLDEST\tP95\tSLO\tUSE\tREFUSED/MIN\tADMITTED/MIN")
	for i := range s.Pools {
		p := &s.Pools[i]
		fmt.Fprintf(rows, "%s\t%s\t%d/%d\t%d\t%s\t%s\t%s\t%s\t%d\t%d\n", sanitize(p.Name), modeText(p.Mode), p.InFlight, p.Workers,
			p.QueueDepth, formatSeconds(p.QueueOldestAgeS), secondsOrDash(p.P95TurnaroundS), formatSeconds(p.SLOS), formatPercent(p.EnvelopeUse), p.Refused1m, p.Admitted1m)
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	b.Reset()
	for i, line := range lines {
		if i > 0 {
			line = v.highlightPool(&s.Pools[i-1], line)
		}
		b.WriteString(line + "\n")
	}
	for i := range s.Pools {
		v.notes(&b, &s.Pools[i])
	}
	v.incidents(&b, s.IncidentsOpen)
	_, err := w.Write(b.Bytes())
	return err
}

// highlightPool makes a pool stand out that does not enforce.
func (v *statusView) highlightPool(p *api.PoolStatus, line string) string {
	switch p.Mode {
	case admission.Enforce.String():
		return line
	case admission.Observe.String():
		return v.paint.highlight(yellow, line)
	default:
		return v.paint.highlight(red, line)
	}
}

// modeText writes a mode that is not the usual one in capitals.
func modeText(mode string) string {
	if mode == admission.Enforce.String() {
		return mode
	}
	return strings.ToUpper(sanitize(mode))
}

// notes tells what the numbers do not.
func (v *statusView) notes(w io.Writer, p *api.PoolStatus) {
	var notes []string
	if p.Mode != admission.Enforce.String() {
		notes = append(notes, fmt.Sprintf("%s since %s by %s: %s", modeText(p.Mode), formatClock(p.ModeSince, v.now()),
			cmp.Or(sanitize(p.ModeBy), "somebody"), cmp.Or(sanitize(p.ModeReason), "no reason given")))
		back := admission.Enforce.String()
		if p.ModeBefore != nil {
			back = sanitize(*p.ModeBefore)
		}
		notes = append(notes, fmt.Sprintf("back to %s: headgate restore --pool %s%s", back, shellQuote(p.Name), v.where))
	}
	if p.ModeRecorded != nil && !*p.ModeRecorded {
		notes = append(notes, "the mode is not recorded yet: a restart would forget it")
	}
	if p.Paused != nil {
		notes = append(notes, fmt.Sprintf("paused until %s by %s: %s; to end it: headgate resume --pool %s%s", sanitize(p.Paused.Until),
			cmp.Or(sanitize(p.Paused.By), "somebody"), cmp.Or(sanitize(p.Paused.Reason), "no reason given"), shellQuote(p.Name), v.where))
	}
	if g := p.AutoRollback; g != nil && g.State == "flipped" {
		notes = append(notes, fmt.Sprintf("rolled back automatically, %d times in 24 hours: %s", g.RollbacksToday, sanitize(g.Reason)))
	}
	if p.Overdue > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d queued can no longer end in time; the queue takes %s to drain", p.Overdue, p.QueueDepth, formatSeconds(p.DrainS)))
	}
	if p.Draining {
		notes = append(notes, "draining: takes no new tasks")
	}
	for i, note := range notes {
		lead := sanitize(p.Name) + ": "
		if i == 0 {
			fmt.Fprintln(w)
		} else {
			lead = strings.Repeat(" ", len(lead))
		}
		fmt.Fprintln(w, lead+note)
	}
}

func secondsOrDash(s *float64) string {
	if s == nil {
		return "-"
	}
	return formatSeconds(*s)
}

func formatPercent(share *float64) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(100**share, 'f', 0, 64) + "%"
}
