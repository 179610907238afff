package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"headgate/engine"
)

const maxID = 64

// CheckID refuses what cannot be the ID of an incident or a silence, and as a
// part of a URL might mean something else.
func CheckID(id string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	if id == "" || len(id) > maxID || strings.Trim(id, letters) != "" {
		return fmt.Errorf("%s cannot be an ID: one has 1 to %d letters, digits and dashes", quoteName(id), maxID)
	}
	return nil
}

const noRuleEngineDetail = "No rules are evaluated here, so there are no incidents and no silences."

// requireEngine refuses requests about incidents if no rules are evaluated.
func (a *Admin) requireEngine(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.control.Engine() == nil {
			WriteProblem(w, Problem{Type: TypeMonitoringDisabled, Status: http.StatusNotFound, Detail: noRuleEngineDetail})
			return
		}
		h(w, r)
	}
}

// listIncidents answers for open ones from what watches, which knows them also
// when the record is broken, and for all from the record.
func (a *Admin) listIncidents(w http.ResponseWriter, r *http.Request) {
	q, p := readIncidentQuery(r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	var page IncidentPage
	if q.Open {
		page = openPage(a.control.Engine().Incidents(), q)
	} else {
		ctx, cancel := context.WithTimeout(r.Context(), recordTimeout)
		defer cancel()
		var err error
		if page, err = a.incidents.List(ctx, q); err != nil {
			a.writeIncidentError(w, err)
			return
		}
		page.Items = mergeLive(page.Items, a.control.Engine().Incidents())
	}
	list, silences, now := IncidentList{Items: []Incident{}, Next: page.Next}, a.control.Engine().Silences(), time.Now()
	for _, i := range page.Items {
		list.Items = append(list.Items, incidentOf(i, silences, now))
	}
	writeJSON(w, http.StatusOK, "application/json", list)
}

// writeIncidentError is where the errors of reading the record become statuses.
func (a *Admin) writeIncidentError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrUnknownCursor):
		WriteProblem(w, *badCursor())
	case errors.Is(err, ErrNoIncident):
		WriteProblem(w, *unknownIncident("There is no such incident."))
	default:
		a.log.Error("the record of incidents cannot be read", "error", err)
		WriteProblem(w, Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record cannot be read just now; the log says why. Open incidents are shown nevertheless, with open=true."})
	}
}

func unknownIncident(detail string) *Problem {
	return &Problem{Type: TypeUnknownIncident, Status: http.StatusNotFound, Detail: detail}
}

func badCursor() *Problem {
	return badRequest(http.StatusBadRequest, "after must be the next of an earlier page.")
}

func readIncidentQuery(r *http.Request) (IncidentQuery, *Problem) {
	values, p := parseQuery(r, "open", "since", "pool", "rule", "after", "limit")
	if p != nil {
		return IncidentQuery{}, p
	}
	q, err := parseIncidentQuery(values, time.Now())
	if err != nil {
		return q, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	if q.Open && q.After != "" && CheckID(q.After) != nil {
		return q, badCursor()
	}
	return q, nil
}

func parseIncidentQuery(values url.Values, now time.Time) (IncidentQuery, error) {
	c, err := parseAuditQuery(values, now)
	if err != nil {
		return IncidentQuery{}, err
	}
	q := IncidentQuery{Since: c.Since, Pool: c.Pool, Rule: values.Get("rule"), After: c.After, Limit: c.Limit}
	if len(q.Rule) > maxParam {
		return q, fmt.Errorf("rule must have at most %d characters", maxParam)
	}
	switch values.Get("open") {
	case "true":
		q.Open = true
	case "":
	default:
		return q, errors.New("open must be true, or be left out")
	}
	return q, nil
}

// openPage returns a page of those that are open.
func openPage(all []engine.Incident, q IncidentQuery) IncidentPage {
	all = slices.DeleteFunc(all, func(i engine.Incident) bool {
		return !i.Open() || i.Opened.Before(q.Since) || q.Pool != "" && q.Pool != i.Key.Pool || q.Rule != "" && q.Rule != i.Key.Rule
	})
	items, next := pageByID(all, func(i engine.Incident) string { return i.ID }, q.After, q.Limit)
	return IncidentPage{Items: items, Next: next}
}

// pageByID returns the page after an ID, newest first: IDs sort by time. The key
// need not be there any more.
func pageByID[T any](all []T, id func(T) string, after string, limit int) (items []T, next string) {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(id(b), id(a)) })
	if after != "" {
		all = slices.DeleteFunc(all, func(v T) bool { return id(v) >= after })
	}
	if len(all) <= limit {
		return all, ""
	}
	return all[:limit], id(all[limit-1])
}

// mergeLive returns recorded incidents brought up to date: the record may be
// behind.
func mergeLive(items, now []engine.Incident) []engine.Incident {
	live := make(map[string]engine.Incident, len(now))
	for _, i := range now {
		live[i.ID] = i
	}
	for n := range items {
		if i, ok := live[items[n].ID]; ok {
			items[n] = i
		}
	}
	return items
}

func (a *Admin) incident(w http.ResponseWriter, r *http.Request) {
	if _, p := parseQuery(r); p != nil {
		WriteProblem(w, *p)
		return
	}
	id := r.PathValue("id")
	if err := CheckID(id); err != nil {
		WriteProblem(w, *unknownIncident("The incident " + err.Error() + "."))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordTimeout)
	defer cancel()
	d, err := a.incidents.Incident(ctx, id)
	live, known := findIncident(a.control.Engine().Incidents(), id)
	switch {
	case err != nil && !known:
		a.writeIncidentError(w, err)
		return
	case err != nil && !errors.Is(err, ErrNoIncident):
		a.log.Error("an incident cannot be read, it is shown as far as it is in memory", "incident", id, "error", err)
	}
	recorded := err == nil
	if known {
		recorded = recorded && d.Incident.Seq >= live.Seq // else it is further on in memory
		d.Incident = live
	}
	report := reportOf(incidentOf(d.Incident, a.control.Engine().Silences(), time.Now()), d)
	report.Recorded = recorded
	writeJSON(w, http.StatusOK, "application/json", report)
}

func findIncident(all []engine.Incident, id string) (engine.Incident, bool) {
	n := slices.IndexFunc(all, func(i engine.Incident) bool { return i.ID == id })
	if n < 0 {
		return engine.Incident{}, false
	}
	return all[n], true
}

// openIncidents are those that the status shows, newest first.
func (a *Admin) openIncidents(now time.Time) []Incident {
	shown := []Incident{}
	if a.control.Engine() == nil {
		return shown
	}
	silences := a.control.Engine().Silences()
	for _, i := range openPage(a.control.Engine().Incidents(), IncidentQuery{Limit: MaxPage}).Items {
		shown = append(shown, incidentOf(i, silences, now))
	}
	return shown
}
