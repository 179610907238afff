package ui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"headgate/web/api"
)

// rowsOfPage is how many rows a list has on one page.
const rowsOfPage = 50

// sinces are the choices of how far back a list goes.
func sinces() []choice {
	return []choice{{"24h", "the last day"}, {"7d", "the last 7 days"}, {"30d", "the last 30 days"}, {"", "all that is kept"}}
}

// choice is one value of a filter.
type choice struct{ Value, Name string }

// incidentsView is the list of incidents, and of silences.
type incidentsView struct {
	Filter    incidentFilter
	Pools     []string
	Sinces    []choice
	Items     []api.Incident
	Older     string // path of the next page; empty: this is the last one
	Newest    string // path of the first page; empty: this is it
	Silences  []api.Mute
	Unwatched bool
	Filtered  bool
}

type incidentFilter struct{ Open, Pool, Rule, Since string }

func (p *Pages) incidents(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	f := incidentFilter{Open: q.Get("open"), Pool: q.Get("pool"), Rule: q.Get("rule"), Since: q.Get("since")}
	query, err := f.query(q.Get("after"), time.Now())
	if err != nil {
		p.refuse(w, r, v, err)
		return
	}
	ctx := r.Context()
	list, err := p.api(v).Incidents(ctx, query)
	view := incidentsView{Filter: f, Pools: p.poolNames(ctx, v), Sinces: sinces(), Items: list.Items, Filtered: f != incidentFilter{}}
	if isType(err, api.TypeNotWatching) {
		view.Unwatched, err = true, nil
	}
	if err != nil {
		p.refuse(w, r, v, err)
		return
	}
	if mutes, err := p.api(v).Mutes(ctx, "", rowsOfPage); err == nil {
		view.Silences = mutes.Items
	}
	view.Older, view.Newest = olderOf(r.URL, list.Next), newestOf(r.URL)
	p.show(w, r, v, http.StatusOK, page{Title: "Incidents", Here: "/incidents", Refresh: 10, Body: view}, "incidents")
}

func (f incidentFilter) query(after string, now time.Time) (api.IncidentQuery, error) {
	q := api.IncidentQuery{Open: f.Open == "true", Pool: f.Pool, Rule: f.Rule, After: after, Limit: rowsOfPage}
	if f.Since == "" {
		return q, nil
	}
	since, err := api.ParseSince(f.Since, now)
	if err != nil {
		return q, &api.Problem{Type: api.TypeBadRequest, Status: http.StatusBadRequest, Detail: "since " + err.Error() + "."}
	}
	q.Since = since
	return q, nil
}

func isType(err error, problem string) bool {
	p, ok := problemOf(err)
	return ok && p.Type == problem
}

// olderOf returns the path of the page after this one, with the same filters.
func olderOf(here *url.URL, next string) string {
	if next == "" {
		return ""
	}
	q := here.Query()
	q.Set("after", next)
	return here.Path + "?" + q.Encode()
}

func newestOf(here *url.URL) string {
	q := here.Query()
	if q.Get("after") == "" {
		return ""
	}
	q.Del("after")
	return here.Path + "?" + q.Encode()
}

func (p *Pages) poolNames(ctx context.Context, v viewer) []string {
	status, err := p.api(v).Status(ctx)
	if err != nil {
		return nil // then there is nothing to choose from
	}
	var all []string
	for _, s := range status.Pools {
		all = append(all, s.Name)
	}
	return all
}

// incidentView is all about one incident.
type incidentView struct {
	api.IncidentReport
	Open     bool
	Lasted   time.Duration
	AckFors  []choice
	MuteFors []choice
	MaxLen   int
	Acked    bool
	Page     bool // there is a runbook
	Left     bool // older messages are left out
}

// What one page shows of an incident, the newest: it has to stay small.
const (
	shownEvents     = 200
	shownDeliveries = 40
	shownText       = 1000 // characters of a message
)

// bound leaves out what is too much for one page.
func (v *incidentView) bound() {
	if over := len(v.Events) - shownEvents; over > 0 {
		v.Events, v.Cut = v.Events[over:], true
	}
	if over := len(v.Deliveries) - shownDeliveries; over > 0 {
		v.Deliveries, v.Left = v.Deliveries[over:], true
	}
	for i := range v.Deliveries {
		d := &v.Deliveries[i]
		if text := []rune(d.Text); len(text) > shownText {
			d.Text = string(text[:shownText]) + "…"
		}
	}
}

func (p *Pages) incident(w http.ResponseWriter, r *http.Request, v viewer) {
	report, err := p.api(v).Incident(r.Context(), r.PathValue("id"))
	if err != nil {
		p.refuse(w, r, v, idFault(err))
		return
	}
	view := incidentView{IncidentReport: report, Open: report.EndedAt == nil, MaxLen: api.MaxReason,
		AckFors:  []choice{{"30m", "30 minutes"}, {"2h", "2 hours"}, {"8h", "8 hours"}},
		MuteFors: []choice{{"1h", "1 hour"}, {"4h", "4 hours"}, {"1d", "1 day"}},
	}
	view.Acked = report.AckUntil != nil && view.Open && time.Now().Before(parsed(*report.AckUntil))
	end := time.Now()
	if report.EndedAt != nil {
		end = parsed(*report.EndedAt)
	}
	view.Lasted = max(end.Sub(parsed(report.OpenedAt)), 0)
	view.bound()
	_, view.Page = runbookOf(report.Runbook)
	title := "Incident: " + spell(report.Rule)
	if report.Pool != "" {
		title += " in " + report.Pool
	}
	p.show(w, r, v, http.StatusOK, page{Title: title, Here: "/incidents", Refresh: 10, Body: view}, "incident")
}

// idFault makes a problem of what the client itself refuses to ask for.
func idFault(err error) error {
	if _, ok := problemOf(err); ok || isSilence(err) {
		return err
	}
	return &api.Problem{Type: api.TypeUnknownIncident, Status: http.StatusNotFound, Detail: initial(err.Error()) + "."}
}

// parsed reads a time that the API wrote.
func parsed(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

func (p *Pages) ack(w http.ResponseWriter, r *http.Request, v viewer) {
	id := r.PathValue("id")
	if _, err := p.api(v).Ack(r.Context(), id, api.AckRequest{For: r.PostFormValue("for")}); err != nil {
		p.refuse(w, r, v, idFault(err))
		return
	}
	http.Redirect(w, r, "/incidents/"+url.PathEscape(id), http.StatusSeeOther)
}

func (p *Pages) silence(w http.ResponseWriter, r *http.Request, v viewer) {
	_, err := p.api(v).Mute(r.Context(), api.MuteRequest{
		Rule: r.PostFormValue("rule"), Pool: r.PostFormValue("pool"), For: r.PostFormValue("for"), Reason: strings.TrimSpace(r.PostFormValue("reason")),
	})
	if err != nil {
		p.refuse(w, r, v, err)
		return
	}
	back := "/incidents"
	if id := r.PostFormValue("incident"); api.CheckID(id) == nil {
		back += "/" + id
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

func (p *Pages) lift(w http.ResponseWriter, r *http.Request, v viewer) {
	if _, err := p.api(v).Unmute(r.Context(), r.PathValue("id")); err != nil {
		p.refuse(w, r, v, idFault(err))
		return
	}
	http.Redirect(w, r, "/incidents", http.StatusSeeOther)
}
