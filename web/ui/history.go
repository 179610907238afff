package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// historyView is the page of what drills have shown.
type historyView struct {
	Filter   historyFilter
	Drills   []choice
	Verdicts []choice
	Triggers []choice
	Rows     []runRow
	Older    string
	Newest   string
	Filtered bool
	None     bool      // this headgate runs no drills
	Year     *yearView // nil: nothing has run yet, or it could not be read
	JSON     string
	CSV      string
}

func (p *Pages) history(w http.ResponseWriter, r *http.Request, v viewer) {
	now := time.Now()
	f := historyFilterOf(r.URL.Query())
	query, err := f.query(r.URL.Query().Get("after"), now)
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	list, err := p.admin.Runs(r.Context(), query)
	if isProblemType(err, api.TypeNoDrills) {
		p.show(w, r, v, http.StatusOK, page{Title: "Drills", NavPath: drillsPath, Body: historyView{None: true}}, "drills")
		return
	}
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := historyView{
		Filter: f, Verdicts: verdictChoices(), Triggers: triggerChoices(), Older: nextPagePath(r.URL, list.Next), Newest: firstPagePath(r.URL),
		Filtered: f != historyFilter{}, JSON: exportPath("runs.json", query), CSV: exportPath("runs.csv", query),
	}
	for _, run := range list.Items {
		view.Rows = append(view.Rows, runRowOf(run))
	}
	known := p.listDrills(r.Context(), v)
	view.Drills = drillChoices(known, f.Drill)
	if r.Header.Get(refreshHeader) == "" { // only the list is refreshed
		view.Year = p.loadYear(r.Context(), v, f.Drill, known, now)
	}
	p.show(w, r, v, http.StatusOK, page{Title: "Drills", NavPath: drillsPath, Refresh: 10, Body: view}, "drills")
}

// yearView is the results of drills, or of one of them, in a year.
type yearView struct {
	Drill, Name string // of the filter; empty: all
	Calendar    calendar
	Trends      *trends // nil: no run has ended
	Standings   []drillStanding
}

func (p *Pages) loadYear(ctx context.Context, v viewer, of string, known []api.DrillSummary, now time.Time) *yearView {
	h, err := p.admin.DrillHistory(ctx, drill.HistoryQuery{Drill: of, Since: firstDay(now), Until: now})
	if err != nil {
		p.log.Warn("the history of drills is shown without its calendar", "error", err)
		return nil
	}
	if len(h.Latest) == 0 {
		return nil
	}
	y := &yearView{Drill: of, Name: of, Calendar: calendarOf(h.Days, of, now), Standings: standingsOf(h, known, now)}
	if of != "" && len(y.Standings) == 1 {
		y.Name = y.Standings[0].Name
	}
	if len(h.Days) > 0 {
		t := trendsOf(h.Days, now)
		y.Trends = &t
	}
	return y
}

func (p *Pages) listDrills(ctx context.Context, v viewer) []api.DrillSummary {
	list, err := p.admin.Drills(ctx)
	if err != nil {
		p.log.Warn("the history of drills is shown without a list of them", "error", err)
	}
	return list.Items
}

// drillChoices are the drills to choose from, and the one that was chosen: it may
// have been removed from the settings.
func drillChoices(known []api.DrillSummary, chosen string) (all []choice) {
	for _, d := range known {
		all = append(all, choice{d.ID, d.Name})
	}
	if chosen != "" && !slices.ContainsFunc(all, func(c choice) bool { return c.Value == chosen }) {
		all = append(all, choice{chosen, chosen})
	}
	return all
}

// historyFilter says which runs are shown, as it stands in the address.
type historyFilter struct {
	Drill, Verdict, Trigger string
	Since, Until            string // days of UTC, both included; Since may also be a span such as 30d
}

func historyFilterOf(q url.Values) historyFilter {
	f := historyFilter{Drill: q.Get("drill"), Verdict: q.Get("verdict"), Trigger: q.Get("trigger"), Since: q.Get("since"), Until: q.Get("until")}
	if day := q.Get("day"); day != "" {
		f.Since, f.Until = day, day
	}
	return f
}

const dayLayout = "2006-01-02"

// query makes a question to the record of a filter.
func (f historyFilter) query(after string, now time.Time) (drill.Query, error) {
	values := api.RunParams(drill.Query{Drill: f.Drill, After: after, Limit: runsPageSize})
	for name, text := range map[string]string{
		"verdict": f.Verdict, "trigger": f.Trigger, "since": dayToRFC3339(f.Since, 0), "until": dayToRFC3339(f.Until, 1),
	} {
		if text != "" {
			values.Set(name, text)
		}
	}
	q, err := api.RunQuery(values, now)
	if err != nil {
		return q, &api.Problem{Type: api.TypeBadRequest, Status: http.StatusBadRequest, Detail: err.Error() + "."}
	}
	return q, nil
}

// dayToRFC3339 makes a time of a day, some days after it. What is no day stays.
func dayToRFC3339(day string, later int) string {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, later).Format(time.RFC3339)
}

// FirstDay is Since for a field that takes days.
func (f historyFilter) FirstDay() string { return toDay(f.Since, time.Now()) }

// LastDay is Until for a field that takes days.
func (f historyFilter) LastDay() string { return toDay(f.Until, time.Now()) }

func toDay(text string, now time.Time) string {
	if _, err := time.Parse(dayLayout, text); err == nil || text == "" {
		return text
	}
	t, err := api.ParseSince(text, now)
	if err != nil {
		return ""
	}
	return t.Format(dayLayout)
}

// runsPageSize is how many runs the history shows at once.
const runsPageSize = 20

// exportPath is where the runs of a filter are had as a file.
func exportPath(file string, q drill.Query) string {
	q.After, q.Limit = "", 0
	path := "/api/v1/" + file
	if values := api.RunParams(q).Encode(); values != "" {
		path += "?" + values
	}
	return path
}

func verdictChoices() (all []choice) {
	for _, v := range drill.Verdicts() {
		all = append(all, choice{string(v), verdictLabelOf(string(v)).Text})
	}
	return all
}

func triggerChoices() []choice {
	return []choice{{"schedule", "schedule"}, {"catch_up", "catch-up"}, {"manual", "by hand"}}
}
