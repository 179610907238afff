package ui

import (
	"maps"
	"net/http"
	"slices"
	"time"

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
	At, Kind, What, Pool, Actor, Via, Reason string
	Ending                                   string // done, refused, withheld or failed
	Subject, Link                            string // what it is about, and where that is shown
	From, To                                 *modeWords
	Details                                  [][2]string
}

func (p *Pages) audit(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	f := auditFilter{Pool: q.Get("pool"), Kind: q.Get("kind"), Since: q.Get("since")}
	query := api.ChangeQuery{Pool: f.Pool, Kind: f.Kind, After: q.Get("after"), Limit: rowsOfPage}
	if f.Since != "" {
		since, err := api.ParseSince(f.Since, time.Now())
		if err != nil {
			p.refuse(w, r, v, &api.Problem{Type: api.TypeBadRequest, Status: http.StatusBadRequest, Detail: "since " + err.Error() + "."})
			return
		}
		query.Since = since
	}
	list, err := p.api(v).Audit(r.Context(), query)
	if err != nil {
		p.refuse(w, r, v, err)
		return
	}
	view := auditView{Filter: f, Pools: p.poolNames(r.Context(), v), Kinds: api.AuditKinds(), Sinces: sinces(),
		Older: olderOf(r.URL, list.Next), Newest: newestOf(r.URL), Filtered: f != auditFilter{}}
	for _, i := range list.Items {
		view.Items = append(view.Items, rowOf(i))
	}
	p.show(w, r, v, http.StatusOK, page{Title: "Audit", Here: "/audit", Body: view}, "audit")
}

func rowOf(i api.AuditItem) auditRow {
	if i.Change != nil {
		return changeRow(*i.Change)
	}
	e := i.Entry
	r := auditRow{At: e.At, Kind: e.Kind, What: e.Action, Pool: e.Pool, Actor: e.Actor, Via: e.Via, Reason: e.Reason,
		Ending: e.Ending, Subject: e.Subject}
	if e.Subject != "" && api.CheckID(e.Subject) == nil && (e.Kind == "press" || e.Kind == "decision" || e.Action == "ack") {
		r.Link = "/incidents/" + e.Subject
	}
	for _, name := range slices.Sorted(maps.Keys(e.Inputs)) {
		r.Details = append(r.Details, [2]string{name, e.Inputs[name]})
	}
	return r
}

func changeRow(c api.Change) auditRow {
	from, to := modeWord(c.From), modeWord(c.To)
	r := auditRow{At: c.At, Kind: api.KindMode, What: c.Action, Pool: c.Pool, Actor: c.Actor, Via: c.Via, Reason: c.Reason,
		Ending: "done"}
	if c.From == c.To { // the first one of a pool
		r.What = "begins in " + to.Word
		return r
	}
	r.From, r.To = &from, &to
	r.Details = [][2]string{{"running then", plainNumber(float64(c.Running))}, {"waiting then", plainNumber(float64(c.Queued))}}
	if c.Dropped > 0 {
		r.Details = append(r.Details, [2]string{"turned away", plainNumber(float64(c.Dropped))})
	}
	return r
}
