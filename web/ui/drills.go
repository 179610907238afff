package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"headgate/web/api"
)

// drillsView is what the overview says of drills.
type drillsView struct {
	Frozen *api.DrillFreeze // nil: they may run
	Next   *nextDrill       // nil: nothing is planned
	Rows   []drillRow
	Fresh  bool // none has ever run
}

// nextDrill is the drill that is due first.
type nextDrill struct {
	Name string
	api.DrillNextRun
}

// drillRow is how one drill ended last.
type drillRow struct {
	api.DrillRow
	PassedAgo string // how long ago it passed; empty: never
	Look      verdictWords
}

// verdictWords are how a verdict is shown.
type verdictWords struct{ Class, Sign, Word string }

func verdictWord(v string) verdictWords {
	switch v {
	case "passed":
		return verdictWords{"ok", "✓", "Passed"}
	case "failed":
		return verdictWords{"bad", "✗", "Failed"}
	case "":
		return verdictWords{"idle", "·", "Never run"}
	case "aborted":
		return verdictWords{"warn", "■", "Aborted"}
	case "inconclusive":
		return verdictWords{"warn", "?", "Inconclusive"}
	case "interrupted":
		return verdictWords{"warn", "!", "Interrupted"}
	case "skipped":
		return verdictWords{"idle", "»", "Skipped"}
	case "missed":
		return verdictWords{"idle", "○", "Missed"}
	default:
		return verdictWords{"warn", "△", initial(spell(v))}
	}
}

// drills returns what there is to say of drills, nil if this headgate runs none or
// cannot tell.
func (p *Pages) drills(ctx context.Context, v viewer, now time.Time) *drillsView {
	list, err := p.api(v).Drills(ctx)
	if err != nil || len(list.Items) == 0 {
		if problem, ok := problemOf(err); ok && problem.Status >= http.StatusInternalServerError {
			p.log.Warn("the overview is shown without drills", "error", err)
		}
		return nil
	}
	view := &drillsView{Fresh: true}
	if list.Freeze.Frozen {
		view.Frozen = &list.Freeze
	}
	for _, d := range list.Items {
		row := drillRow{DrillRow: d, Look: verdictWord("")}
		view.Fresh = view.Fresh && d.Last == nil && d.Running == nil
		if d.Last != nil {
			row.Look = verdictWord(d.Last.Verdict)
		}
		if d.LastPassedAt != nil {
			row.PassedAgo = ago(now.Sub(parsed(*d.LastPassedAt)))
		}
		view.Rows = append(view.Rows, row)
		if len(d.NextRuns) > 0 && (view.Next == nil || parsed(d.NextRuns[0].At).Before(parsed(view.Next.At))) {
			view.Next = &nextDrill{d.Name, d.NextRuns[0]}
			view.Next.Local = thereOf(view.Next.Local)
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
