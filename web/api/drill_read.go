package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"headgate/runbooks/drill"
)

// routeDrills serves what is about drills.
func (a *Admin) routeDrills() {
	for path, by := range map[string]methodHandlers{
		"drills":            {http.MethodGet: a.listDrills},
		"drills/history":    {http.MethodGet: a.drillHistory},
		"drills/{name}/run": {http.MethodPost: a.startDrill},
		"drills/freeze":     {http.MethodPost: a.freezeDrills(true)},
		"drills/unfreeze":   {http.MethodPost: a.freezeDrills(false)},
		"runs":              {http.MethodGet: a.listRuns},
		"runs.json":         {http.MethodGet: a.exportJSON},
		"runs.csv":          {http.MethodGet: a.exportCSV},
		"runs/{id}":         {http.MethodGet: a.run},
		"runs/{id}/abort":   {http.MethodPost: a.abortRun},
	} {
		for method, h := range by {
			by[method] = a.requireDrills(h)
		}
		a.route("/api/v1/"+path, by)
	}
}

// requireDrills refuses requests about drills while there are none.
func (a *Admin) requireDrills(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.drills == nil {
			WriteProblem(w, *noDrills())
			return
		}
		h(w, r)
	}
}

func noDrills() *Problem {
	return &Problem{Type: TypeNoDrills, Status: http.StatusNotFound, Detail: "This headgate runs no drills."}
}

func (a *Admin) listDrills(w http.ResponseWriter, r *http.Request) {
	if _, p := parseQuery(r); p != nil {
		WriteProblem(w, *p)
		return
	}
	list, err := a.Drills(r.Context())
	a.reply(w, list, err)
}

// Drills lists the drills. Its error is a *Problem, as of the other methods about drills.
func (a *Admin) Drills(ctx context.Context) (DrillList, error) {
	if a.drills == nil {
		return DrillList{}, noDrills()
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	states, err := a.drills.Catalog.Drills(ctx, time.Now())
	if err != nil {
		return DrillList{}, a.drillProblem("list drills", err)
	}
	list := DrillList{Freeze: freezeOf(states.Freeze), Items: []DrillSummary{}}
	for _, s := range states.Items {
		list.Items = append(list.Items, drillSummaryOf(s))
	}
	return list, nil
}

func (a *Admin) listRuns(w http.ResponseWriter, r *http.Request) {
	q, p := readRunQuery(r, time.Now())
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	list, err := a.Runs(r.Context(), q)
	a.reply(w, list, err)
}

// Runs returns a page of runs, newest first.
func (a *Admin) Runs(ctx context.Context, q drill.Query) (DrillRunList, error) {
	if a.drills == nil {
		return DrillRunList{}, noDrills()
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	runs, next, err := a.drills.Runs.Runs(ctx, q)
	if err != nil {
		return DrillRunList{}, a.drillProblem("list runs", err)
	}
	return DrillRunList{Items: RunSummaries(runs), Next: next}, nil
}

// RunSummaries returns runs as lists show them.
func RunSummaries(runs []drill.Run) []drill.Run {
	shown := make([]drill.Run, 0, len(runs))
	for _, r := range runs {
		shown = append(shown, r.Summary())
	}
	return shown
}

// run shows one run, as it is in memory while it goes on.
func (a *Admin) run(w http.ResponseWriter, r *http.Request) {
	values, p := parseQuery(r, "series")
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	report, err := a.Run(r.Context(), r.PathValue("id"), values.Get("series"))
	a.reply(w, report, err)
}

// Run returns one run, as it is in memory while it goes on, with a part of its series.
func (a *Admin) Run(ctx context.Context, id, series string) (drill.Run, error) {
	switch {
	case a.drills == nil:
		return drill.Run{}, noDrills()
	case series != FullSeries && series != LastPoint && series != NoSeries:
		return drill.Run{}, badRequest(http.StatusBadRequest, "series must be last, none, or be left out.")
	case CheckID(id) != nil:
		return drill.Run{}, &Problem{Type: TypeUnknownRun, Status: http.StatusNotFound, Detail: "The run " + CheckID(id).Error() + "."}
	}
	found, live := a.drills.Catalog.Live(id)
	if !live {
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		var err error
		if found, err = a.drills.Runs.Run(ctx, id); err != nil {
			return drill.Run{}, a.drillProblem("read a run", err)
		}
	}
	switch series {
	case NoSeries:
		found.Series = nil
	case LastPoint:
		found.Series = found.Series[max(0, len(found.Series)-1):]
	}
	return found.Report(live), nil
}

// runParamNames are the filters of runs.
func runParamNames() []string {
	return []string{"drill", "verdict", "trigger", "since", "until", "running", "after", "limit"}
}

func readRunQuery(r *http.Request, now time.Time) (drill.Query, *Problem) {
	values, p := parseQuery(r, runParamNames()...)
	if p != nil {
		return drill.Query{}, p
	}
	q, err := RunQuery(values, now)
	if err != nil {
		return q, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	return q, nil
}

// RunQuery reads the filters of runs from the values of a URL. Errors are a
// sentence without its full stop.
func RunQuery(values url.Values, now time.Time) (q drill.Query, err error) {
	c, err := parseAuditQuery(values, now)
	if err != nil {
		return q, err
	}
	q = drill.Query{Drill: values.Get("drill"), Since: c.Since, After: c.After, Limit: c.Limit}
	if len(q.Drill) > maxParam {
		return q, fmt.Errorf("drill must have at most %d characters", maxParam)
	}
	if s := values.Get("until"); s != "" {
		if q.Until, err = ParseSince(s, now); err != nil {
			return q, fmt.Errorf("until %w", err)
		}
	}
	if q.Verdicts, err = parseEnumList("verdict", values.Get("verdict"), drill.Verdicts()); err != nil {
		return q, err
	}
	if q.Triggers, err = parseEnumList("trigger", values.Get("trigger"), []drill.Trigger{drill.BySchedule, drill.ByCatchUp, drill.ByHand}); err != nil {
		return q, err
	}
	switch values.Get("running") {
	case "true":
		q.Running = true
	case "":
	default:
		return q, errors.New("running must be true, or be left out")
	}
	return q, nil
}

// parseEnumList reads words with commas between them.
func parseEnumList[T ~string](what, text string, known []T) (out []T, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		if !slices.Contains(known, T(word)) {
			return nil, fmt.Errorf("%s must be of %s, with commas between them", what, join(known, ", "))
		}
		if !slices.Contains(out, T(word)) {
			out = append(out, T(word))
		}
	}
	return out, nil
}

func join[T ~string](words []T, between string) string {
	texts := make([]string, len(words))
	for n, w := range words {
		texts[n] = string(w)
	}
	return strings.Join(texts, between)
}
