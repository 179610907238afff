package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/web/api"
)

// drillsView is what the overview says of drills.
type drillsView struct {
	Freeze   api.DrillFreeze
	Next     *nextDrill // nil: nothing is planned
	Rows     []drillRow
	NeverRun bool // none has ever run
}

// nextDrill is the drill that is due first.
type nextDrill struct {
	Name string
	api.DrillNextRun
}

// drillRow is how one drill ended last.
type drillRow struct {
	api.DrillSummary
	PassedAgo string // how long ago it passed; empty: never
	Label     verdictLabel
}

// verdictLabel are how a verdict is shown.
type verdictLabel struct{ Class, Sign, Text string }

var verdictLabels = map[string]verdictLabel{
	"":             {"idle", "·", "Never run"},
	"passed":       {"ok", "✓", "Passed"},
	"failed":       {"bad", "✗", "Failed"},
	"aborted":      {"warn", "■", "Aborted"},
	"inconclusive": {"warn", "?", "Inconclusive"},
	"interrupted":  {"warn", "!", "Interrupted"},
	"skipped":      {"idle", "»", "Skipped"},
	"missed":       {"idle", "○", "Missed"},
}

// verdictLabelOf also labels verdicts of a newer version, which the record may hold.
func verdictLabelOf(v string) verdictLabel {
	if label, ok := verdictLabels[v]; ok {
		return label
	}
	return verdictLabel{"warn", "△", format.Sentence(humanize(v))}
}

// drillRowOf says how a drill stands.
func drillRowOf(d api.DrillSummary, now time.Time) drillRow {
	row := drillRow{DrillSummary: d, Label: verdictLabelOf("")}
	row.Note, row.NextRuns = format.Truncate(d.Note, shownNote), slices.Clone(d.NextRuns)
	for n := range row.NextRuns {
		row.NextRuns[n].Local = formatLocal(row.NextRuns[n].Local)
	}
	if d.Last != nil {
		row.Label = verdictLabelOf(d.Last.Verdict)
	}
	if !d.LastPassedAt.IsZero() {
		row.PassedAgo = format.Ago(now.Sub(d.LastPassedAt.Time))
	}
	return row
}

// drills summarizes the drills, nil if this headgate runs none or their state is not known.
func (p *Pages) drills(ctx context.Context, now time.Time) *drillsView {
	list, err := p.admin.Drills(ctx)
	if err != nil || len(list.Items) == 0 {
		if problem, ok := problemOf(err); ok && problem.Status >= http.StatusInternalServerError {
			p.log.Warn("the overview is shown without drills", "error", err)
		}
		return nil
	}
	view := &drillsView{NeverRun: true, Freeze: list.Freeze}
	for _, d := range list.Items {
		view.NeverRun = view.NeverRun && d.Last == nil && d.Running == nil
		row := drillRowOf(d, now)
		view.Rows = append(view.Rows, row)
		if len(row.NextRuns) > 0 && (view.Next == nil || row.NextRuns[0].At.Before(view.Next.At.Time)) {
			view.Next = &nextDrill{d.Name, row.NextRuns[0]}
		}
	}
	slices.SortStableFunc(view.Rows, func(a, b drillRow) int { return b.lastAt().Compare(a.lastAt()) })
	return view
}

// lastAt is when a drill ended last, zero if it never has.
func (d drillRow) lastAt() time.Time {
	if d.Last == nil {
		return time.Time{}
	}
	return d.Last.At.Time
}

// definitionsView is the page of the drills that there are.
type definitionsView struct {
	None   bool // this headgate runs no drills
	Freeze api.DrillFreeze
	Flash  string
	Rows   []drillRow
}

// rank puts first what runs now, then what runs by itself.
func (d drillRow) rank() int {
	switch {
	case d.Running != nil:
		return 0
	case d.Schedule != "":
		return 1
	default:
		return 2
	}
}

func (p *Pages) definitions(w http.ResponseWriter, r *http.Request, v viewer) error {
	list, err := p.admin.Drills(r.Context())
	pg := page{Title: "Drills: definitions", NavPath: drillsPath, Refresh: 10}
	if isProblemType(err, api.TypeNoDrills) {
		pg.Body, pg.Refresh = definitionsView{None: true}, 0
		return p.show(w, r, v, http.StatusOK, pg, "definitions")
	}
	if err != nil {
		return err
	}
	view := definitionsView{
		Flash:  map[string]string{"freeze": "Drills are frozen.", "unfreeze": "Drills may run again."}[r.URL.Query().Get("done")],
		Freeze: list.Freeze,
	}
	now := time.Now()
	for _, d := range list.Items {
		view.Rows = append(view.Rows, drillRowOf(d, now))
	}
	slices.SortStableFunc(view.Rows, func(a, b drillRow) int { return cmp.Compare(a.rank(), b.rank()) })
	pg.Body = view
	return p.show(w, r, v, http.StatusOK, pg, "definitions")
}

// formatLocal writes a time with its offset as people read it in that zone.
func formatLocal(local string) string {
	t, err := time.Parse(time.RFC3339, local)
	if err != nil {
		return local
	}
	return t.Format("Mon 2 Jan 2006 15:04 -07:00")
}
