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
	Frozen   *api.DrillFreeze // nil: they may run
	Next     *nextDrill       // nil: nothing is planned
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

func verdictLabelOf(v string) verdictLabel {
	switch v {
	case "passed":
		return verdictLabel{"ok", "✓", "Passed"}
	case "failed":
		return verdictLabel{"bad", "✗", "Failed"}
	case "":
		return verdictLabel{"idle", "·", "Never run"}
	case "aborted":
		return verdictLabel{"warn", "■", "Aborted"}
	case "inconclusive":
		return verdictLabel{"warn", "?", "Inconclusive"}
	case "interrupted":
		return verdictLabel{"warn", "!", "Interrupted"}
	case "skipped":
		return verdictLabel{"idle", "»", "Skipped"}
	case "missed":
		return verdictLabel{"idle", "○", "Missed"}
	default:
		return verdictLabel{"warn", "△", upperFirst(humanize(v))}
	}
}

// drills returns what there is to say of drills, nil if this headgate runs none or
// cannot tell.
func (p *Pages) drills(ctx context.Context, v viewer, now time.Time) *drillsView {
	list, err := p.admin.Drills(ctx)
	if err != nil || len(list.Items) == 0 {
		if problem, ok := problemOf(err); ok && problem.Status >= http.StatusInternalServerError {
			p.log.Warn("the overview is shown without drills", "error", err)
		}
		return nil
	}
	view := &drillsView{NeverRun: true}
	if list.Freeze.Frozen {
		view.Frozen = &list.Freeze
	}
	for _, d := range list.Items {
		row := drillRow{DrillSummary: d, Label: verdictLabelOf("")}
		view.NeverRun = view.NeverRun && d.Last == nil && d.Running == nil
		if d.Last != nil {
			row.Label = verdictLabelOf(d.Last.Verdict)
		}
		if d.LastPassedAt != nil {
			row.PassedAgo = format.Ago(now.Sub(parseTime(*d.LastPassedAt)))
		}
		view.Rows = append(view.Rows, row)
		if len(d.NextRuns) > 0 && (view.Next == nil || parseTime(d.NextRuns[0].At).Before(parseTime(view.Next.At))) {
			view.Next = &nextDrill{d.Name, d.NextRuns[0]}
			view.Next.Local = formatLocal(view.Next.Local)
		}
	}
	slices.SortStableFunc(view.Rows, func(a, b drillRow) int { return cmp.Compare(lastAt(b), lastAt(a)) })
	return view
}

// lastAt is when a drill ended last, as text that sorts.
func lastAt(d drillRow) string {
	if d.Last == nil {
		return ""
	}
	return d.Last.At
}
