package cli

import (
	"cmp"
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
	all := func() ([]api.Incident, string, error) { return allIncidents(ctx, c, api.IncidentQuery{Open: open}) }
	return resolveID(what, given, all, func(i *api.Incident) string { return i.ID })
}

// incidentTable lists incidents; open ones stand out.
func incidentTable(p *printer, all []api.Incident) {
	header := []any{"ID", "LEVEL", "RULE", "POOL", "VALUE", "OPENED", "STATE"}
	list(p, all, "no incidents", header, func(t *table, n *api.Incident) {
		t.row(incidentStyle(n), n.ID, levelText(n), n.Rule, n.Pool, amount(n.Value, n.Unit),
			timestamp(n.Opened), incidentState(n))
	})
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
		return fmt.Sprintf("%s after %s", endReason(i), elapsed(i.Ended.Sub(i.Opened)))
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
	return ask(ctx, s, func(c *api.Client) (report api.IncidentReport, err error) {
		id, err := resolveIncident(ctx, c, id, false)
		if err != nil {
			return report, err
		}
		return c.Incident(ctx, id)
	}, s.text)
}

// text shows an incident in full. The commands and the runbook are left out once it has
// ended.
func (s *ShowIncident) text(p *printer, r *api.IncidentReport) {
	p.line(incidentStyle(&r.Incident), "%s  %s  %s",
		levelText(&r.Incident), ruleInPool(r.Rule, r.Pool), incidentState(&r.Incident))
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
	value, threshold := amount(r.Value, r.Unit), amount(r.Threshold, r.Unit)
	t.fact("value", fmt.Sprintf("%s, %s at %s", value, r.Level, threshold))
	if r.Open() {
		t.fact("since", fmt.Sprintf("%s (%s ago)", timestamp(r.Opened), elapsed(s.Now().Sub(r.Opened))))
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
	header := []any{"#", "AT", "EVENT", "LEVEL", "VALUE", "BY", "NOTE"}
	list(p, r.Events, "", header, func(t *table, e *api.Event) {
		t.row(plain, e.Seq, timestamp(e.At), e.Kind, e.Level, amount(e.Value, r.Unit), e.By, eventNote(&e.Event))
	})
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
	p.printf("\n")
	header := []any{"#", "MESSAGE", "TO", "STATE", "ATTEMPTS", "LAST TRIED", "NEXT", "REASON"}
	list(p, r.Deliveries, "no messages", header, func(t *table, d *api.Delivery) {
		state, look := d.State, plain
		if state == "dead" {
			state, look = "DEAD", alarm
		}
		t.row(look, d.Seq, d.Kind, d.Destination, state, d.Attempts, timestampOr(d.Tried, ""),
			timestampOr(d.NextAttempt, ""), d.Reason)
	})
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
	done := "acknowledged"
	return ask(ctx, a, func(c *api.Client) (reply api.AckReply, err error) {
		id, err := resolveIncident(ctx, c, id, true)
		if err != nil {
			return reply, err
		}
		reply, err = c.Ack(ctx, id, api.AckRequest{For: a.For})
		var p *api.Problem
		if errors.As(err, &p) && p.Acked != nil && p.Acked.By == a.Actor() {
			// The same person again: the incident is acknowledged as intended.
			report, readErr := c.Incident(ctx, id)
			done, err = "already acknowledged", readErr
			reply = api.AckReply{Acknowledgement: *p.Acked, Incident: report.Incident}
		}
		return reply, maybeApplied(err)
	}, func(p *printer, reply *api.AckReply) {
		p.printf("%s: %s by %s until %s; no reminders until then, an escalation to page is still sent\n",
			ruleInPool(reply.Incident.Rule, reply.Incident.Pool), done, reply.By, timestamp(reply.Until))
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
		return s.list(ctx)
	case s.Lift != "":
		return s.lift(ctx)
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
	return s.create(ctx, rule)
}

// create silences a rule. An equal silence that exists already is kept.
func (s *Silence) create(ctx context.Context, rule string) error {
	return ask(ctx, s, func(c *api.Client) (api.SilenceReply, error) {
		request := api.SilenceRequest{Rule: rule, Pool: s.Pool, For: s.For, Reason: s.Reason}
		reply, err := c.Silence(ctx, request)
		return reply, maybeApplied(err)
	}, func(p *printer, reply *api.SilenceReply) {
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
func (s *Silence) lift(ctx context.Context) error {
	return ask(ctx, s, func(c *api.Client) (lifted engine.Silence, err error) {
		all := func() ([]engine.Silence, string, error) { return allSilences(ctx, c) }
		id, err := resolveID("silence", s.Lift, all, func(n *engine.Silence) string { return n.ID })
		if err != nil {
			return lifted, err
		}
		lifted, err = c.Unsilence(ctx, id)
		return lifted, maybeApplied(err)
	}, func(p *printer, lifted *engine.Silence) {
		p.printf("%s: no longer silenced; the current state is sent\n", ruleInPool(lifted.Rule, lifted.Pool))
	})
}

// list shows the active silences.
func (s *Silence) list(ctx context.Context) error {
	return ask(ctx, s, func(c *api.Client) (api.SilenceList, error) {
		all, rest, err := allSilences(ctx, c)
		return api.SilenceList{Items: all, Next: rest}, err
	}, func(p *printer, all *api.SilenceList) {
		header := []any{"ID", "RULE", "POOL", "UNTIL", "BY", "REASON"}
		list(p, all.Items, "no silences", header, func(t *table, n *engine.Silence) {
			t.row(plain, n.ID, n.Rule, cmp.Or(n.Pool, "all"), timestamp(n.Until), n.By, n.Reason)
		})
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
	base := cmp.Or(l.URL, t.url)
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
