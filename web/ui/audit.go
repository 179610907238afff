package ui

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"headgate/runbooks/control"
	"headgate/web/api"
)

// auditView is the list of what was done.
type auditView struct {
	Filter   auditFilter
	Pools    []string
	Kinds    []string
	Sinces   []choice
	Items    []auditRow
	Older    string
	Newest   string
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

func (p *Pages) audit(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	f := auditFilter{Pool: q.Get("pool"), Kind: q.Get("kind"), Since: q.Get("since")}
	query := control.AuditQuery{Pool: f.Pool, Kind: control.AuditKind(f.Kind), After: q.Get("after"), Limit: pageSize}
	if f.Since != "" {
		since, err := api.ParseSince(f.Since, time.Now())
		if err != nil {
			p.showAPIError(w, r, v, &api.Problem{Type: api.TypeBadRequest, Status: http.StatusBadRequest, Detail: "since " + err.Error() + "."})
			return
		}
		query.Since = since
	}
	list, err := p.admin.Audit(r.Context(), query)
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := auditView{Filter: f, Pools: p.poolNames(), Kinds: api.AuditKinds(), Sinces: sinceChoices(),
		Older: nextPagePath(r.URL, list.Next), Newest: firstPagePath(r.URL), Filtered: f != auditFilter{}}
	for _, i := range list.Items {
		view.Items = append(view.Items, auditRowOf(i))
	}
	p.show(w, r, v, http.StatusOK, page{Title: "Audit", NavPath: "/audit", Body: view}, "audit")
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
