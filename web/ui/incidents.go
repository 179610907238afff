package ui

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"headgate/engine"
	"headgate/internal/format"
	"headgate/runbooks"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// pageSize is how many rows a list has on one page.
const pageSize = 50

// sinceChoices are the choices of how far back a list goes.
func sinceChoices() []choice {
	return []choice{{"24h", "the last day"}, {"7d", "the last 7 days"}, {"30d", "the last 30 days"}, {"", "all that is kept"}}
}

// choice is one value of a filter.
type choice struct{ Value, Name string }

// incidentsView is the list of incidents, and of silences.
type incidentsView struct {
	Filter incidentFilter
	Pools  []string
	Sinces []choice
	Items  []api.Incident
	pager
	Silences           []engine.Silence
	MonitoringDisabled bool
	Filtered           bool
}

type incidentFilter struct{ Open, Pool, Rule, Since string }

func (p *Pages) incidents(w http.ResponseWriter, r *http.Request, v viewer) error {
	q := r.URL.Query()
	f := incidentFilter{Open: q.Get("open"), Pool: q.Get("pool"), Rule: q.Get("rule"), Since: q.Get("since")}
	since, err := parseSince(f.Since)
	if err != nil {
		return err
	}
	query := api.IncidentQuery{Open: f.Open == "true", Pool: f.Pool, Rule: f.Rule, Since: since, After: q.Get("after"), Limit: pageSize}
	ctx := r.Context()
	list, err := p.admin.Incidents(ctx, query)
	view := incidentsView{Filter: f, Pools: p.poolNames(), Sinces: sinceChoices(), Items: list.Items, Filtered: f != incidentFilter{}}
	if isProblemType(err, api.TypeMonitoringDisabled) {
		view.MonitoringDisabled, err = true, nil
	}
	if err != nil {
		return err
	}
	if list, err := p.admin.Silences("", pageSize); err == nil {
		view.Silences = list.Items
	}
	view.pager = pagerOf(r.URL, list.Next)
	return p.show(w, r, v, http.StatusOK, page{Title: "Incidents", NavPath: "/incidents", Refresh: 10, Body: view}, "incidents")
}

// parseSince reads how far back a list goes; zero: as far as there is a record.
func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	since, err := api.ParseSince(text, time.Now())
	if err != nil {
		return since, badRequest("since " + err.Error() + ".")
	}
	return since, nil
}

func isProblemType(err error, problem string) bool {
	p, ok := problemOf(err)
	return ok && p.Type == problem
}

// pager leads to other pages of a list, with the same filters.
type pager struct {
	Older  string // path of the next page; empty: this is the last one
	Newest string // path of the first page; empty: this is it
}

// pagerOf returns the neighbours of a page. There is no link to the previous page: a cursor only leads to older entries.
func pagerOf(here *url.URL, next string) (p pager) {
	q := here.Query()
	if q.Get("after") != "" {
		q.Del("after")
		p.Newest = here.Path + "?" + q.Encode()
	}
	if next != "" {
		q.Set("after", next)
		p.Older = here.Path + "?" + q.Encode()
	}
	return p
}

func (p *Pages) poolNames() []string {
	var all []string
	for _, s := range p.admin.Status().Pools {
		all = append(all, s.Name)
	}
	return all
}

// incidentView is all about one incident.
type incidentView struct {
	api.IncidentReport
	Open             bool
	Duration         time.Duration
	AckDurations     []choice
	SilenceDurations []choice
	MaxLen           int
	Acked            bool
	HasRunbook       bool // there is a runbook
	MoreDeliveries   bool // older messages are left out
}

// What one page shows of an incident, the newest: it has to stay small.
const (
	shownEvents     = 200
	shownDeliveries = 40
	shownText       = 1000 // characters of a message
)

// truncate leaves out what is too much for one page.
func (v *incidentView) truncate() {
	v.Truncated = v.Truncated || len(v.Events) > shownEvents
	v.Events = v.Events[max(len(v.Events)-shownEvents, 0):]
	v.MoreDeliveries = len(v.Deliveries) > shownDeliveries
	v.Deliveries = v.Deliveries[max(len(v.Deliveries)-shownDeliveries, 0):]
	for i := range v.Deliveries {
		v.Deliveries[i].Text = format.Truncate(v.Deliveries[i].Text, shownText)
	}
}

func (p *Pages) incident(w http.ResponseWriter, r *http.Request, v viewer) error {
	report, err := p.admin.Incident(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	view := incidentView{IncidentReport: report, Open: report.Incident.Open(), MaxLen: api.MaxReason,
		AckDurations:     []choice{{"30m", "30 minutes"}, {"2h", "2 hours"}, {"8h", "8 hours"}},
		SilenceDurations: []choice{{"1h", "1 hour"}, {"4h", "4 hours"}, {"1d", "1 day"}},
	}
	view.Acked = view.Open && time.Now().Before(report.AckUntil)
	end := time.Now()
	if !view.Open {
		end = report.Ended
	}
	view.Duration = max(end.Sub(report.Opened), 0)
	view.truncate()
	_, view.HasRunbook = runbooks.Page(report.Runbook)
	title := "Incident: " + humanize(report.Rule)
	if report.Pool != "" {
		title += " in " + report.Pool
	}
	return p.show(w, r, v, http.StatusOK, page{Title: title, NavPath: "/incidents", Refresh: 10, Body: view}, "incident")
}

func (p *Pages) ack(w http.ResponseWriter, r *http.Request, v viewer) error {
	id := r.PathValue("id")
	_, err := api.DoAction(r.Context(), p.control, v.actor(), control.ActionAck, api.ActionRequest{Incident: id, For: r.PostFormValue("for")})
	return seeOther(w, r, "/incidents/"+url.PathEscape(id), err)
}

func (p *Pages) createSilence(w http.ResponseWriter, r *http.Request, v viewer) error {
	_, err := api.CreateSilence(r.Context(), p.control, v.actor(), api.SilenceRequest{
		Rule: r.PostFormValue("rule"), Pool: r.PostFormValue("pool"), For: r.PostFormValue("for"),
		Reason: strings.TrimSpace(r.PostFormValue("reason")),
	})
	back := "/incidents"
	if id := r.PostFormValue("incident"); api.CheckID(id) == nil {
		back += "/" + id
	}
	return seeOther(w, r, back, err)
}

func (p *Pages) liftSilence(w http.ResponseWriter, r *http.Request, v viewer) error {
	_, err := p.control.Unsilence(r.Context(), v.actor(), r.PathValue("id"))
	return seeOther(w, r, "/incidents", err)
}

// auditView is the list of what was done.
type auditView struct {
	Filter auditFilter
	Pools  []string
	Kinds  []string
	Sinces []choice
	Items  []auditRow
	pager
	Filtered bool
}

type auditFilter struct{ Pool, Kind, Since string }

// auditRow is one line of the audit, whatever it is about.
type auditRow struct {
	At                        time.Time
	Kind                      control.AuditKind
	What, Pool, Actor, Reason string
	Via                       control.Via
	Result                    control.AuditResult
	Subject, Link             string // what it is about, and where that is shown
	From, To                  *modeLabel
	Details                   [][2]string
}

func (p *Pages) audit(w http.ResponseWriter, r *http.Request, v viewer) error {
	q := r.URL.Query()
	f := auditFilter{Pool: q.Get("pool"), Kind: q.Get("kind"), Since: q.Get("since")}
	since, err := parseSince(f.Since)
	if err != nil {
		return err
	}
	query := control.AuditQuery{Pool: f.Pool, Kind: control.AuditKind(f.Kind), Since: since, After: q.Get("after"), Limit: pageSize}
	list, err := p.admin.Audit(r.Context(), query)
	if err != nil {
		return err
	}
	view := auditView{
		Filter: f, Pools: p.poolNames(), Kinds: api.AuditKinds(), Sinces: sinceChoices(), pager: pagerOf(r.URL, list.Next),
		Filtered: f != auditFilter{},
	}
	for _, i := range list.Items {
		view.Items = append(view.Items, auditRowOf(i))
	}
	return p.show(w, r, v, http.StatusOK, page{Title: "Audit", NavPath: "/audit", Body: view}, "audit")
}

func auditRowOf(i control.AuditRecord) auditRow {
	if i.Change != nil {
		return changeRow(*i.Change)
	}
	e := i.Entry
	r := auditRow{At: e.At, Kind: e.Kind, What: e.Action, Pool: e.Pool, Actor: e.Actor, Via: e.Via, Reason: e.Reason,
		Result: e.Result, Subject: e.Subject}
	if e.Subject != "" && api.CheckID(e.Subject) == nil && (e.Kind == control.KindInteraction || e.Kind == control.KindDecision || e.Action == control.ActionAck) {
		r.Link = "/incidents/" + e.Subject
	}
	for _, name := range slices.Sorted(maps.Keys(e.Inputs)) {
		r.Details = append(r.Details, [2]string{name, e.Inputs[name]})
	}
	return r
}

// changeRow shows a change of mode, with the load at that time as evidence.
func changeRow(c control.ModeChange) auditRow {
	from, to := modeLabelOf(c.From.String()), modeLabelOf(c.To.String())
	r := auditRow{At: c.At, Kind: control.KindMode, What: string(c.Action), Pool: c.Pool, Actor: c.Actor, Via: c.Via, Reason: c.Reason,
		Result: "done"}
	if c.From == c.To { // the first one of a pool
		r.What = "begins in " + to.Text
		return r
	}
	r.From, r.To = &from, &to
	r.Details = [][2]string{{"running then", formatNumber(float64(c.Running))}, {"waiting then", formatNumber(float64(c.Queued))}}
	if c.Dropped > 0 {
		r.Details = append(r.Details, [2]string{"rejected", formatNumber(float64(c.Dropped))})
	}
	return r
}
