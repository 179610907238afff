package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// What one page shows of a run: it has to stay small.
const (
	shownRollbacks = 30
	shownMessages  = 30
	shownSpec      = 12 << 10 // bytes
	shownReason    = 400      // characters of what headgate writes into a run
	shownNote      = 700      // characters of what a definition says of itself
	shownName      = 100      // characters of a name
)

// runRefresh is how often a run that goes on refreshes itself, in seconds.
const runRefresh = 2

// runView is all about one run.
type runView struct {
	runRow
	Note          string
	Owner         string
	Pool          string
	Abortable     bool
	Phases        []phaseRow
	Charts        []chart
	Hypotheses    []hypothesisRow
	Expected      []string // while there are no hypotheses: what it must show
	Messages      []drill.Message
	MoreMessages  int // messages that are left out
	Rollbacks     []drill.UndoResult
	MoreRollbacks int
	Comparison    *runComparison // nil: there is none before
	Definition    string         // as YAML; empty: none was kept
	LinkIncidents bool           // incidents are production's, and have pages
	Flash         string
}

func (p *Pages) run(w http.ResponseWriter, r *http.Request, v viewer) {
	report, err := p.admin.Run(r.Context(), r.PathValue("id"), api.FullSeries)
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := p.runView(r.Context(), v, report, time.Now())
	if r.URL.Query().Get("done") == "abort" && report.Verdict != "" {
		view.Flash = "The run is stopped, and its faults are cleared."
	}
	pg := page{Title: report.Name + ": " + view.Label.Text, NavPath: drillsPath, Body: view}
	if view.Abortable {
		pg.Refresh = runRefresh
	}
	p.show(w, r, v, http.StatusOK, pg, "run")
}

func (p *Pages) runView(ctx context.Context, v viewer, report drill.Run, now time.Time) runView {
	view := runView{
		runRow: runRowOf(report), Note: format.Truncate(report.Spec.Note, shownNote), Owner: report.Spec.Owner, Pool: report.Spec.Pool,
		Abortable: report.Verdict == "", Phases: phaseRows(report, now), LinkIncidents: report.Spec.Target == drill.Live,
		Definition: specText(report.Spec),
	}
	if view.Why == "" {
		view.Why = format.Truncate(report.Reason, shownReason)
	}
	facts := p.poolFacts(ctx, v, report.Spec.Pool, now)
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
	view.setMessages(report)
	if view.Verdict != "" {
		view.Comparison = p.compareWithPrevious(ctx, v, report)
	}
	return view
}

// poolFacts returns the limits of a pool; of the first if none is named.
func (p *Pages) poolFacts(ctx context.Context, v viewer, pool string, now time.Time) PoolFacts {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	if pool == "" {
		if names := p.poolNames(); len(names) > 0 {
			pool = names[0]
		}
	}
	return p.facts.of(ctx, now, pool)
}

// setMessages puts in what the run told people and took back, as far as there is room.
func (v *runView) setMessages(report drill.Run) {
	// A run that goes on is that of its runner: its lists must not be altered.
	v.Messages, v.Rollbacks = slices.Clone(report.Messages), slices.Clone(report.UndoResults)
	if v.MoreMessages = max(len(v.Messages)-shownMessages, 0); v.MoreMessages > 0 {
		v.Messages = v.Messages[:shownMessages]
	}
	if v.MoreRollbacks = max(len(v.Rollbacks)-shownRollbacks, 0); v.MoreRollbacks > 0 {
		v.Rollbacks = v.Rollbacks[:shownRollbacks]
	}
	for n := range v.Messages {
		m := &v.Messages[n]
		m.Text, m.Incident = format.Truncate(m.Text, shownText), format.Truncate(m.Incident, shownName)
		m.Kind, m.Level, m.Channel = format.Truncate(m.Kind, shownName), format.Truncate(m.Level, shownName), format.Truncate(m.Channel, shownName)
	}
	for n := range v.Rollbacks {
		u := &v.Rollbacks[n]
		u.What, u.Note = format.Truncate(u.What, shownName), format.Truncate(u.Note, shownReason)
	}
}

func specText(s drill.Spec) string {
	if s.ID == "" {
		return ""
	}
	text, err := s.YAML()
	if err != nil {
		return ""
	}
	return format.Truncate(string(text), shownSpec)
}

// hypothesisRow is a hypothesis, as a table shows it.
type hypothesisRow struct {
	Name, Value, Limit, Margin string
	Evidence                   string // on what it rests, or why it is not known
	Label                      verdictLabel
}

// rank puts what did not hold first, and what is not known before what held.
func (h hypothesisRow) rank() int { return slices.Index([]string{"bad", "warn", "ok"}, h.Label.Class) }

func hypothesisRowOf(h drill.Hypothesis) hypothesisRow {
	row := hypothesisRow{measureName(h.Measure), measured(h), limitText(h), marginText(h), format.Truncate(h.Evidence, shownReason), verdictLabel{"bad", "✗", "Did not hold"}}
	switch {
	case !h.Measured:
		row.Label, row.Evidence, row.Margin = verdictLabel{"warn", "?", "Not known"}, format.Truncate(h.Reason, shownReason), dash
	case h.Passed:
		row.Label = verdictLabel{"ok", "✓", "Held"}
	}
	return row
}

// phaseRow is a part of a run, as a table shows it.
type phaseRow struct {
	Name, Note   string
	Began        time.Time
	Took         string
	Open         bool
	From, Length string // in thousandths of the run
	FaultActive  bool   // faults were in force
}

// phaseRows shows the phases against the time of the whole run.
func phaseRows(r drill.Run, now time.Time) (rows []phaseRow) {
	if len(r.Phases) == 0 {
		return nil
	}
	ends := func(p drill.Phase) time.Time {
		switch {
		case !p.Ended.IsZero():
			return p.Ended
		case !r.Ended.IsZero():
			return r.Ended
		}
		return now
	}
	first, last := r.Phases[0].Started, ends(r.Phases[len(r.Phases)-1])
	part := func(d time.Duration) string {
		return strconv.FormatFloat(1000*min(max(float64(d)/float64(max(last.Sub(first), 1)), 0), 1), 'f', 0, 64)
	}
	for _, p := range r.Phases {
		began, ended := p.Started, ends(p)
		took := max(ended.Sub(began), 0)
		rows = append(rows, phaseRow{
			Name: upperFirst(humanize(string(p.Name))), Began: p.Started, Note: format.Truncate(p.Note, shownReason), Took: formatShortSeconds(took.Seconds()), Open: p.Ended.IsZero() && r.Ended.IsZero(),
			From: part(began.Sub(first)), Length: part(max(took, last.Sub(first)/200)), FaultActive: p.Name == drill.PhaseInject || p.Name == drill.PhaseHold,
		})
	}
	return rows
}
