package ui

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/web/api"
)

// definitionsView is the page of the drills that there are.
type definitionsView struct {
	None   bool // this headgate runs no drills
	Frozen *api.DrillFreeze
	Flash  string
	Rows   []definitionRow
}

// definitionRow is one drill, as it stands.
type definitionRow struct {
	api.DrillSummary
	Label     verdictLabel
	PassedAgo string
	Next      []dueTimeRow
}

// rank puts first what runs now, then what runs by itself.
func (d definitionRow) rank() int {
	switch {
	case d.Running != nil:
		return 0
	case d.Schedule != "":
		return 1
	default:
		return 2
	}
}

// dueTimeRow is a due time in the zone of its schedule.
type dueTimeRow struct{ At, Local, Note string }

func (p *Pages) definitions(w http.ResponseWriter, r *http.Request, v viewer) {
	list, err := p.admin.Drills(r.Context())
	pg := page{Title: "Drills: definitions", NavPath: drillsPath, Refresh: 10}
	if isProblemType(err, api.TypeNoDrills) {
		pg.Body, pg.Refresh = definitionsView{None: true}, 0
		p.show(w, r, v, http.StatusOK, pg, "definitions")
		return
	}
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := definitionsView{Flash: map[string]string{"freeze": "Drills are frozen.", "unfreeze": "Drills may run again."}[r.URL.Query().Get("done")]}
	if list.Freeze.Frozen {
		view.Frozen = &list.Freeze
	}
	now := time.Now()
	for _, d := range list.Items {
		view.Rows = append(view.Rows, definitionRowOf(d, now))
	}
	slices.SortStableFunc(view.Rows, func(a, b definitionRow) int { return cmp.Compare(a.rank(), b.rank()) })
	pg.Body = view
	p.show(w, r, v, http.StatusOK, pg, "definitions")
}

func definitionRowOf(d api.DrillSummary, now time.Time) definitionRow {
	row := definitionRow{DrillSummary: d, Label: verdictLabelOf("")}
	row.Note = format.Truncate(row.Note, shownNote)
	if d.Last != nil {
		row.Label = verdictLabelOf(d.Last.Verdict)
	}
	if d.LastPassedAt != nil {
		row.PassedAgo = format.Ago(now.Sub(parseTime(*d.LastPassedAt)))
	}
	for _, n := range d.NextRuns {
		row.Next = append(row.Next, dueTimeRow{n.At, formatLocal(n.Local), n.Note})
	}
	return row
}

// formatLocal writes a time with its offset as people read it in that zone.
func formatLocal(local string) string {
	t, err := time.Parse(time.RFC3339, local)
	if err != nil {
		return local
	}
	return t.Format("Mon 2 Jan 2006 15:04 -07:00")
}
