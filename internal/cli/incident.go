package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/engine"
	"headgate/internal/format"
	"headgate/runbooks"
	"headgate/web/api"
)

// Incidents lists incidents.
type Incidents struct {
	Service
	Open       bool
	Since      string // empty: all, with Open
	Pool, Rule string
}

// Run lists them.
func (l *Incidents) Run(ctx context.Context) error {
	q := api.IncidentQuery{Open: l.Open, Pool: l.Pool, Rule: l.Rule}
	if l.Since != "" || !l.Open {
		since, err := api.ParseSince(l.Since, l.Now())
		if err != nil {
			return Usagef("--since %w", err)
		}
		q.Since = since
	}
	return l.call(ctx, func(c *api.Client) error {
		all, rest, err := allIncidents(ctx, c, q)
		if err == nil && !l.Open {
			all, err = addOpen(ctx, c, q, all)
		}
		if err != nil {
			return err
		}
		l.warnTruncated(rest, "incidents")
		return l.show(api.IncidentList{Items: all, Next: rest}, func(p *printer) { incidentTable(p, all) })
	})
}

// addOpen adds the open incidents of any age to those of a query. An old incident
// that is still open must not be left out.
func addOpen(ctx context.Context, c *api.Client, q api.IncidentQuery, all []api.Incident) ([]api.Incident, error) {
	q.Open, q.Since = true, time.Time{}
	open, _, err := allIncidents(ctx, c, q)
	for _, i := range open {
		if !slices.ContainsFunc(all, func(o api.Incident) bool { return o.ID == i.ID }) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b api.Incident) int { return b.Opened.Compare(a.Opened) })
	return all, err
}

// allIncidents reads all pages of a query.
func allIncidents(ctx context.Context, c *api.Client, q api.IncidentQuery) ([]api.Incident, string, error) {
	q.Limit = api.MaxPage
	return readPages(func(after string) ([]api.Incident, string, error) {
		q.After = after
		list, err := c.Incidents(ctx, q)
		return list.Items, list.Next, err
	})
}

// resolveIncident completes the beginning of an ID.
func resolveIncident(ctx context.Context, c *api.Client, given string, open bool) (string, error) {
	what := "incident"
	if open {
		what = "open incident"
	}
	return resolveID(what, given, func() ([]string, error) {
		all, _, err := allIncidents(ctx, c, api.IncidentQuery{Open: open})
		return idsOf(all, func(i *api.Incident) string { return i.ID }), err
	})
}

// incidentTable lists incidents; open ones stand out.
func incidentTable(p *printer, all []api.Incident) {
	if len(all) == 0 {
		p.printf("no incidents\n")
		return
	}
	t := p.table("ID", "LEVEL", "RULE", "POOL", "VALUE", "OPENED", "STATE")
	for i := range all {
		n := &all[i]
		t.row(incidentStyle(n), n.ID, levelText(n), n.Rule, n.Pool, amount(n.Value, n.Unit), timestamp(n.Opened), incidentState(n))
	}
	t.end()
}

// incidentStyle makes an open incident stand out.
func incidentStyle(i *api.Incident) style {
	switch {
	case !i.Open():
		return plain
	case i.Level == engine.LevelPage:
		return alarm
	default:
		return warning
	}
}

// levelText writes an open page in capitals; a resolved incident shows its peak.
func levelText(i *api.Incident) string {
	switch {
	case !i.Open():
		return i.Peak.String()
	case i.Level == engine.LevelPage:
		return "PAGE"
	default:
		return i.Level.String()
	}
}

// incidentState sums up the state of an incident.
func incidentState(i *api.Incident) string {
	if !i.Open() {
		return fmt.Sprintf("%s after %s", endReason(i), between(i.Opened, i.Ended))
	}
	words := []string{"open"}
	if i.AckedBy != "" {
		words = append(words, fmt.Sprintf("acknowledged by %s until %s", i.AckedBy, timestamp(i.AckUntil)))
	}
	if i.Silenced {
		words = append(words, "silenced")
	}
	if i.Flapping {
		words = append(words, "flapping")
	}
	return strings.Join(words, ", ")
}

// endReason is why an incident ended. New reasons of the API are shown as they are.
func endReason(i *api.Incident) string {
	switch i.Resolution {
	case "":
		return "ended"
	case engine.NoTraffic:
		return "ended (no traffic)"
	case engine.RuleDeleted:
		return "ended (rule deleted)"
	default:
		return string(i.Resolution)
	}
}

// ruleInPool names a rule and its pool.
func ruleInPool(rule, pool string) string {
	if pool == "" {
		return rule
	}
	return rule + " in " + pool
}

// ShowIncident shows one incident with timeline, messages and runbook.
type ShowIncident struct{ Service }

// Run shows the incident whose ID begins as given.
func (s *ShowIncident) Run(ctx context.Context, id string) error {
	return s.call(ctx, func(c *api.Client) error {
		id, err := resolveIncident(ctx, c, id, false)
		if err != nil {
			return err
		}
		report, err := c.Incident(ctx, id)
		if err != nil {
			return err
		}
		return s.show(report, func(p *printer) { s.text(p, &report) })
	})
}

// text shows an incident in full. The commands and the runbook are left out once it has
// ended.
func (s *ShowIncident) text(p *printer, r *api.IncidentReport) {
	p.line(incidentStyle(&r.Incident), "%s  %s  %s", levelText(&r.Incident), ruleInPool(r.Rule, r.Pool), incidentState(&r.Incident))
	p.printf("\n")
	s.facts(p, r)
	if !r.Recorded {
		p.printf("\ntimeline and messages are unavailable: the database cannot be read, or is not written yet\n")
	}
	if r.Truncated {
		p.printf("\nonly the newest %d are shown\n", api.MaxTimeline)
	}
	timeline(p, r)
	messages(p, r)
	if !r.Open() {
		return
	}
	if r.AckedBy == "" {
		p.printf("\nacknowledge: headgate incident ack %s%s\n", r.ID, s.shellArgs())
	}
	if page, ok := runbooks.Page(r.Runbook); ok {
		p.WriteString("\n" + strings.TrimSpace(page) + "\n")
	}
}

// facts shows the value beside the threshold of the present level.
func (s *ShowIncident) facts(p *printer, r *api.IncidentReport) {
	t := p.table()
	t.fact("what", r.Summary)
	t.fact("impact", r.Impact)
	t.fact("value", fmt.Sprintf("%s, %s at %s", amount(r.Value, r.Unit), r.Level, amount(r.Threshold, r.Unit)))
	if r.Open() {
		t.fact("since", fmt.Sprintf("%s (%s ago)", timestamp(r.Opened), between(r.Opened, s.Now())))
	} else {
		t.fact("since", timestamp(r.Opened))
		t.fact("until", timestamp(r.Ended))
	}
	if r.ReopenCount > 0 {
		t.fact("reopened", fmt.Sprintf("%d times", r.ReopenCount))
	}
	t.fact("runbook", r.Runbook)
	t.fact("id", r.ID)
	t.end()
}

// timeline shows the events of an incident, oldest first.
func timeline(p *printer, r *api.IncidentReport) {
	if len(r.Events) == 0 {
		return
	}
	p.printf("\n")
	t := p.table("#", "AT", "EVENT", "LEVEL", "VALUE", "BY", "NOTE")
	for i := range r.Events {
		e := &r.Events[i]
		t.row(plain, e.Seq, timestamp(e.At), e.Kind, e.Level, amount(e.Value, r.Unit), e.By, eventNote(e))
	}
	t.end()
}

// eventNote says why an event was not sent, or what a digest of flapping covers.
func eventNote(e *engine.Event) string {
	switch {
	case e.Muted:
		return "silenced: not sent"
	case e.Digested:
		return "suppressed while flapping"
	case e.Count > 0:
		return fmt.Sprintf("%d escalations", e.Count)
	default:
		return ""
	}
}

// messages shows the state of every notification. Without a database nothing is known
// about them.
func messages(p *printer, r *api.IncidentReport) {
	if !r.Recorded {
		return
	}
	if len(r.Deliveries) == 0 {
		p.printf("\nno messages\n")
		return
	}
	p.printf("\n")
	t := p.table("#", "MESSAGE", "TO", "STATE", "ATTEMPTS", "LAST TRIED", "NEXT", "REASON")
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		state, look := d.State, plain
		if state == "dead" {
			state, look = "DEAD", alarm
		}
		t.row(look, d.Seq, d.Kind, d.Destination, state, d.Attempts, timestampOr(d.Tried, ""), timestampOr(d.NextAttempt, ""), d.Reason)
	}
	t.end()
}

// Ack acknowledges an incident.
type Ack struct {
	Service
	For string
}

// Run acknowledges the open incident whose ID begins as given.
func (a *Ack) Run(ctx context.Context, id string) error {
	if _, err := api.ParseDuration(a.For); err != nil {
		return Usagef("--for %w", err)
	}
	return a.call(ctx, func(c *api.Client) error {
		id, err := resolveIncident(ctx, c, id, true)
		if err != nil {
			return err
		}
		reply, err := c.Ack(ctx, id, api.AckRequest{For: a.For})
		done := "acknowledged"
		var p *api.Problem
		if errors.As(err, &p) && p.Acked != nil && p.Acked.By == a.Actor() {
			// The same person again: the incident is acknowledged as intended.
			report, readErr := c.Incident(ctx, id)
			done, err = "already acknowledged", readErr
			reply = api.AckReply{Acknowledgement: *p.Acked, Incident: report.Incident}
		}
		if err != nil {
			return maybeApplied(err)
		}
		return a.show(reply, func(p *printer) {
			p.printf("%s: %s by %s until %s; no reminders until then, an escalation to page is still sent\n",
				ruleInPool(reply.Incident.Rule, reply.Incident.Pool), done, reply.By, timestamp(reply.Until))
		})
	})
}

// Silence silences a rule, lists silences, or lifts one.
type Silence struct {
	Service
	Pool, For, Reason string
	List              bool
	Lift              string // ID, or its beginning
}

// Run does the one of the three that the fields and arguments ask for.
func (s *Silence) Run(ctx context.Context, rule string) (err error) {
	creates := rule != "" || s.Pool != "" || s.For != "" || s.Reason != ""
	switch {
	case s.List && s.Lift != "" || (s.List || s.Lift != "") && creates:
		return Usage(errors.New("give a RULE with --for and --reason, or --list, or --lift ID"))
	case s.List:
		return s.call(ctx, func(c *api.Client) error { return s.list(ctx, c) })
	case s.Lift != "":
		return s.call(ctx, func(c *api.Client) error { return s.lift(ctx, c) })
	case rule == "":
		return Usage(errors.New("RULE is missing: headgate incident list shows rules; or give --list or --lift ID"))
	}
	if s.Reason, err = reasonLine(s.Reason); err != nil {
		return err
	}
	if s.Reason == "" {
		return Usage(errors.New("--reason must say why"))
	}
	if _, err := api.ParseDuration(s.For); err != nil {
		return Usagef("--for %w", err)
	}
	return s.call(ctx, func(c *api.Client) error { return s.create(ctx, c, rule) })
}

// create silences a rule. An equal silence that exists already is kept.
func (s *Silence) create(ctx context.Context, c *api.Client, rule string) error {
	reply, err := c.Silence(ctx, api.SilenceRequest{Rule: rule, Pool: s.Pool, For: s.For, Reason: s.Reason})
	if err != nil {
		return maybeApplied(err)
	}
	return s.show(reply, func(p *printer) {
		done := "silenced"
		if !reply.Created {
			done = "already silenced"
		}
		n := &reply.Silence
		p.printf("%s: %s until %s by %s: %s\nundo: headgate incident silence --lift %s%s\n",
			ruleInPool(n.Rule, n.Pool), done, timestamp(n.Until), n.By, n.Reason, n.ID, s.shellArgs())
	})
}

// allSilences reads all silences that have not ended.
func allSilences(ctx context.Context, c *api.Client) ([]engine.Silence, string, error) {
	return readPages(func(after string) ([]engine.Silence, string, error) {
		list, err := c.Silences(ctx, after, api.MaxPage)
		return list.Items, list.Next, err
	})
}

// lift ends a silence early.
func (s *Silence) lift(ctx context.Context, c *api.Client) error {
	id, err := resolveID("silence", s.Lift, func() ([]string, error) {
		all, _, err := allSilences(ctx, c)
		return idsOf(all, func(n *engine.Silence) string { return n.ID }), err
	})
	if err != nil {
		return err
	}
	lifted, err := c.Unsilence(ctx, id)
	if err != nil {
		return maybeApplied(err)
	}
	return s.show(lifted, func(p *printer) {
		p.printf("%s: no longer silenced; the current state is sent\n", ruleInPool(lifted.Rule, lifted.Pool))
	})
}

// list shows the active silences.
func (s *Silence) list(ctx context.Context, c *api.Client) error {
	all, rest, err := allSilences(ctx, c)
	if err != nil {
		return err
	}
	return s.show(api.SilenceList{Items: all, Next: rest}, func(p *printer) {
		if len(all) == 0 {
			p.printf("no silences\n")
			return
		}
		t := p.table("ID", "RULE", "POOL", "UNTIL", "BY", "REASON")
		for _, n := range all {
			pool := n.Pool
			if pool == "" {
				pool = "all"
			}
			t.row(plain, n.ID, n.Rule, pool, timestamp(n.Until), n.By, n.Reason)
		}
		t.end()
	})
}

// Login makes a link that signs a browser in.
type Login struct {
	Service
	URL string // of the admin listener as the browser reaches it; empty: as this command does
}

// loginLink is what --json prints.
type loginLink struct {
	URL   string    `json:"url"`
	Until time.Time `json:"until"`
}

// Run prints the link.
func (l *Login) Run(ctx context.Context) error {
	if l.URL != "" {
		if _, err := api.ParseAdminURL(l.URL); err != nil {
			return Usagef("--url: %w", err)
		}
	}
	t, err := l.target()
	if err != nil {
		return err
	}
	base := t.url
	if l.URL != "" {
		base = l.URL
	}
	return l.call(ctx, func(c *api.Client) error {
		reply, err := c.CreateLoginLink(ctx)
		if err != nil {
			return err
		}
		link := loginLink{URL: strings.TrimSuffix(base, "/") + reply.Path, Until: reply.Until}
		err = l.show(link, func(p *printer) { p.printf("%s\n", link.URL) })
		if err == nil && !l.JSON {
			fmt.Fprintf(l.Err, "works once, until %s\n", format.Printable(timestamp(link.Until)))
		}
		return err
	})
}
