package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// What one page shows of a run: it has to stay small.
const (
	shownUndone = 30
	shownTold   = 30
	shownSpec   = 12 << 10 // bytes
	shownReason = 400      // characters of what headgate writes into a run
	shownNote   = 700      // characters of what a definition says of itself
	shownWord   = 100      // characters of a name
)

// runRefresh is how often a run that goes on refreshes itself, in seconds.
const runRefresh = 2

// runView is all about one run.
type runView struct {
	runRow
	Live       bool
	Note       string
	Owner      string
	Pool       string
	Abortable  bool
	Phases     []phaseRow
	Charts     []chart
	Hypotheses []hypothesisRow
	Expected   []string // while there are no hypotheses: what it must show
	Messages   []api.DrillMessage
	MoreTold   int // messages that are left out
	Undone     []api.DrillUndone
	MoreUndone int
	Against    *runDifference // nil: there is none before
	Spec       string         // as YAML; empty: none was kept
	Linked     bool           // incidents are production's, and have pages
	Done       string
}

func (p *Pages) run(w http.ResponseWriter, r *http.Request, v viewer) {
	report, err := p.api(v).Run(r.Context(), r.PathValue("id"), api.WholeSeries)
	if err != nil {
		p.refuse(w, r, v, runFault(err))
		return
	}
	view := p.runView(r.Context(), v, report, time.Now())
	if r.URL.Query().Get("done") == "abort" && report.Verdict != nil {
		view.Done = "The run is stopped, and its faults are cleared."
	}
	pg := page{Title: report.Name + ": " + view.Look.Word, Here: drillsPath, Body: view}
	if view.Abortable {
		pg.Refresh = runRefresh
	}
	p.show(w, r, v, http.StatusOK, pg, "run")
}

// runFault makes a problem of what the client itself refuses to ask for.
func runFault(err error) error {
	if _, ok := problemOf(err); ok || isSilence(err) {
		return err
	}
	return &api.Problem{Type: api.TypeUnknownRun, Status: http.StatusNotFound, Detail: "A run " + err.Error() + "."}
}

func (p *Pages) runView(ctx context.Context, v viewer, report api.DrillReport, now time.Time) runView {
	view := runView{
		runRow: runRowOf(report.DrillRun), Live: report.Live, Note: cutTo(report.Spec.Note, shownNote), Owner: report.Spec.Owner, Pool: report.Spec.Pool,
		Abortable: report.Verdict == nil, Phases: phaseRows(report.DrillRun, now), Linked: report.Spec.Target == drill.Live,
		Spec: specText(report.Spec),
	}
	if view.Why == "" {
		view.Why = cutTo(report.Reason, shownReason)
	}
	facts := p.factsOf(ctx, v, report.Spec.Pool, now)
	view.Charts = runCharts(report, facts)
	for _, h := range report.Hypotheses {
		view.Hypotheses = append(view.Hypotheses, hypothesisRowOf(h))
	}
	slices.SortStableFunc(view.Hypotheses, func(a, b hypothesisRow) int { return cmp.Compare(a.rank(), b.rank()) })
	if len(view.Hypotheses) == 0 {
		for _, e := range report.Spec.Expect {
			view.Expected = append(view.Expected, e.String())
		}
	}
	view.told(report)
	if view.Verdict != nil {
		view.Against = p.against(ctx, v, report)
	}
	return view
}

// factsOf returns the limits of a pool; of the first if none is named.
func (p *Pages) factsOf(ctx context.Context, v viewer, pool string, now time.Time) PoolFacts {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	if pool == "" {
		if names := p.poolNames(ctx, v); len(names) > 0 {
			pool = names[0]
		}
	}
	facts, _ := p.facts.Facts(ctx, now, pool)
	return facts
}

// told puts in what the run told people and took back, as far as there is room.
func (v *runView) told(report api.DrillReport) {
	v.Messages, v.Undone = report.Messages, report.Undone
	if v.MoreTold = max(len(v.Messages)-shownTold, 0); v.MoreTold > 0 {
		v.Messages = v.Messages[:shownTold]
	}
	if v.MoreUndone = max(len(v.Undone)-shownUndone, 0); v.MoreUndone > 0 {
		v.Undone = v.Undone[:shownUndone]
	}
	for n := range v.Messages {
		m := &v.Messages[n]
		m.Text, m.Incident = cutTo(m.Text, shownText), cutTo(m.Incident, shownWord)
		m.Kind, m.Level, m.Channel = cutTo(m.Kind, shownWord), cutTo(m.Level, shownWord), cutTo(m.Channel, shownWord)
	}
	for n := range v.Undone {
		u := &v.Undone[n]
		u.What, u.Note = cutTo(u.What, shownWord), cutTo(u.Note, shownReason)
	}
}

// cutTo leaves out what is more than so many characters.
func cutTo(text string, most int) string {
	if all := []rune(text); len(all) > most {
		return string(all[:most]) + "…"
	}
	return text
}

func specText(s drill.Spec) string {
	if s.ID == "" {
		return ""
	}
	text, err := s.YAML()
	if err != nil {
		return ""
	}
	return cutTo(string(text), shownSpec)
}

// hypothesisRow is a hypothesis, as a table shows it.
type hypothesisRow struct {
	Name, Value, Limit, Margin string
	Seen                       string // on what it rests, or why it is not known
	Look                       verdictWords
}

// rank puts what did not hold first, and what is not known before what held.
func (h hypothesisRow) rank() int { return slices.Index([]string{"bad", "warn", "ok"}, h.Look.Class) }

func hypothesisRowOf(h api.DrillHypothesis) hypothesisRow {
	row := hypothesisRow{measureWord(h.Name), amount(h.Value, h.Unit), limitWord(h), marginWord(h), cutTo(h.Evidence, shownReason), verdictWords{"bad", "✗", "Did not hold"}}
	switch {
	case h.Value == nil:
		row.Look, row.Seen, row.Margin = verdictWords{"warn", "?", "Not known"}, cutTo(h.Why, shownReason), none
	case h.Passed:
		row.Look = verdictWords{"ok", "✓", "Held"}
	}
	return row
}

// phaseRow is a part of a run, as a table shows it.
type phaseRow struct {
	Name, Began, Note string
	Took              string
	Open              bool
	From, Length      string // in thousandths of the run
	Faulty            bool   // faults were in force
}

// phaseRows shows the phases against the time of the whole run.
func phaseRows(r api.DrillRun, now time.Time) (rows []phaseRow) {
	if len(r.Phases) == 0 {
		return nil
	}
	ends := func(p api.DrillPhase) time.Time {
		if p.EndedAt != nil {
			return parsed(*p.EndedAt)
		}
		if r.EndedAt != nil {
			return parsed(*r.EndedAt)
		}
		return now
	}
	first, last := parsed(r.Phases[0].BeganAt), ends(r.Phases[len(r.Phases)-1])
	part := func(d time.Duration) string {
		return strconv.FormatFloat(1000*min(max(float64(d)/float64(max(last.Sub(first), 1)), 0), 1), 'f', 0, 64)
	}
	for _, p := range r.Phases {
		began, ended := parsed(p.BeganAt), ends(p)
		took := max(ended.Sub(began), 0)
		rows = append(rows, phaseRow{
			Name: initial(spell(p.Name)), Began: p.BeganAt, Note: cutTo(p.Note, shownReason), Took: brief(took.Seconds()), Open: p.EndedAt == nil && r.EndedAt == nil,
			From: part(began.Sub(first)), Length: part(max(took, last.Sub(first)/200)), Faulty: p.Name == string(drill.PhaseInject) || p.Name == string(drill.PhaseHold),
		})
	}
	return rows
}
