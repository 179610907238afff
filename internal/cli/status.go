package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

const (
	watchInterval = time.Second
	clearScreen   = "\x1b[H\x1b[2J" // cursor to the top left, then empty the screen
)

// Status shows pools and open incidents, once or every second.
type Status struct {
	Service
	Watch bool

	fetch  func(context.Context) (api.Status, error) // tests replace it
	screen bool                                      // Out can be redrawn
}

// Run shows the status.
func (s *Status) Run(ctx context.Context) error {
	if !s.Watch {
		return ask(ctx, s, func(c *api.Client) (api.Status, error) { return c.Status(ctx) }, s.table)
	}
	t, err := s.target()
	if err != nil {
		return err
	}
	if t.unusable != nil {
		return Usage(t.unusable)
	}
	s.screen = IsTerminal(s.Out)
	s.fetch = func(ctx context.Context) (now api.Status, err error) {
		err = s.connect(ctx, t, func(c *api.Client) error {
			now, err = c.Status(ctx)
			return err
		})
		return now, err
	}
	s.watch(ctx)
	return nil
}

// watch shows the status until ctx ends or its output is closed. A service that does
// not answer is asked again.
func (s *Status) watch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		now, err := s.fetch(ctx)
		if ctx.Err() != nil || s.draw(&now, err) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// draw shows one status, or why there is none. It returns an error of the output.
func (s *Status) draw(now *api.Status, fetched error) error {
	at := s.Now().UTC().Format(time.RFC3339)
	p := s.newPrinter()
	switch {
	case s.JSON && fetched == nil:
		return json.NewEncoder(s.Out).Encode(now)
	case s.screen && !s.JSON:
		p.printf(clearScreen+"%s  every %s, Ctrl-C ends\n\n", at, watchInterval)
		if fetched != nil {
			p.WriteString(p.paint(alarm, fetched.Error()) + "\n")
		} else {
			s.table(p, now)
		}
	case fetched != nil:
		_, err := fmt.Fprintf(s.Err, "headgate: %s %v\n", at, fetched)
		return err
	default:
		for i := range now.Pools {
			l := &now.Pools[i]
			p.printf("%s %s %s in_flight=%d/%d queued=%d oldest=%s p95=%s refused_1m=%d admitted_1m=%d\n",
				at, l.Name, modeText(l.Mode), l.InFlight, l.Workers, l.QueueDepth, format.Table.Seconds(l.QueueOldestAgeS),
				optional(l.P95TurnaroundS, format.Table.Seconds), l.Refused1m, l.Admitted1m)
		}
	}
	_, err := s.Out.Write(p.Bytes())
	return err
}

// table shows the pools, what a person should know of each, and open incidents.
func (s *Status) table(p *printer, now *api.Status) {
	t := p.table("POOL", "MODE", "IN FLIGHT", "QUEUED", "OLDEST", "P95", "SLO", "USE", "REFUSED/MIN", "ADMITTED/MIN")
	for i := range now.Pools {
		l := &now.Pools[i]
		t.row(modeStyle(l.Mode), l.Name, modeText(l.Mode), fmt.Sprintf("%d/%d", l.InFlight, l.Workers), l.QueueDepth,
			format.Table.Seconds(l.QueueOldestAgeS), optional(l.P95TurnaroundS, format.Table.Seconds),
			format.Table.Seconds(l.SLOS), optional(l.EnvelopeUse, format.Table.Percent), l.Refused1m, l.Admitted1m)
	}
	t.end()
	for i := range now.Pools {
		l := &now.Pools[i]
		p.notes(l.Name, s.notes(l))
	}
	for i := range now.IncidentsOpen {
		s.incident(p, &now.IncidentsOpen[i], i == 0)
	}
}

// modeStyle makes a pool that does not enforce stand out.
func modeStyle(mode string) style {
	switch mode {
	case admission.Enforce.String():
		return plain
	case admission.Observe.String():
		return warning
	default:
		return alarm
	}
}

// modeText writes a mode other than enforce in capitals.
func modeText(mode string) string {
	if mode == admission.Enforce.String() {
		return mode
	}
	return strings.ToUpper(mode)
}

// notes are what the numbers do not say.
func (s *Status) notes(l *control.PoolStatus) (notes []string) {
	addf := func(text string, args ...any) { notes = append(notes, fmt.Sprintf(text, args...)) }
	who := func(by string) string { return cmp.Or(by, "unknown") }
	why := func(reason string) string { return cmp.Or(reason, "no reason given") }
	if l.Mode != admission.Enforce.String() {
		addf("%s since %s by %s: %s", modeText(l.Mode), clock(l.ModeSince, s.Now()), who(l.ModeBy), why(l.ModeReason))
		back := admission.Enforce.String()
		if l.ModeBefore != nil {
			back = *l.ModeBefore
		}
		addf("back to %s: headgate restore --pool %s%s", back, shellQuote(l.Name), s.shellArgs())
	}
	if l.ModeRecorded != nil && !*l.ModeRecorded {
		addf("the mode is not recorded yet: a restart would lose it")
	}
	if l.Paused != nil {
		addf("paused until %s by %s: %s; to end it: headgate resume --pool %s%s", timestamp(l.Paused.Until),
			who(l.Paused.Actor), why(l.Paused.Reason), shellQuote(l.Name), s.shellArgs())
	}
	if g := l.AutoRollback; g != nil && g.State == control.RolledBack {
		addf("rolled back automatically, %d times in 24 hours: %s", g.RollbacksToday, g.Reason)
	}
	if l.Overdue > 0 {
		addf("%d of %d queued can no longer meet their deadline; the queue takes %s to drain",
			l.Overdue, l.QueueDepth, format.Table.Seconds(l.DrainS))
	}
	if l.Draining {
		addf("draining: takes no new tasks")
	}
	return notes
}

// notes writes lines about one thing, below an empty line; its name leads the first.
func (p *printer) notes(name string, lines []string) {
	lead := format.Printable(name) + ": "
	for i, line := range lines {
		if i == 0 {
			p.printf("\n%s%s\n", lead, line)
		} else {
			p.printf("%*s%s\n", len(lead), "", line)
		}
	}
}

// incident shows an open incident: level, rule, pool, problem, and the command for more.
func (s *Status) incident(p *printer, in *api.Incident, first bool) {
	if first {
		io.WriteString(p, "\n")
	}
	acked := ""
	if in.AckedBy != "" {
		acked = "; acknowledged by " + in.AckedBy
	}
	p.line(incidentStyle(in), "%s %s (%s): %s%s",
		strings.ToUpper(in.Level.String()), in.Rule, cmp.Or(in.Pool, "headgate itself"), in.Summary, acked)
	p.printf("  headgate incident show %s%s\n", shellQuote(in.ID), s.shellArgs())
}
