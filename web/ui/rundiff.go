package ui

import (
	"context"
	"slices"
	"strings"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// runDifference is what is different from the run of the same drill before.
type runDifference struct {
	Before  runRow
	Rows    []differenceRow
	Changed bool       // the definition is another
	Lines   []specLine // what is different in it
	More    bool       // there is more of that
}

// differenceRow is one value, then and now.
type differenceRow struct {
	Name, Then, Now, Change string
	Class                   string // ok: better; bad: worse; idle: the same, or not to be compared
}

// specLine is a line of a definition that is only in one of two.
type specLine struct{ Sign, Text string }

const shownLines = 60

// against compares a run with the one of the same drill before it that went to its
// end, nil if there is none.
func (p *Pages) against(ctx context.Context, v viewer, now api.DrillReport) *runDifference {
	if now.StartedAt == nil {
		return nil
	}
	list, err := p.api(v).Runs(ctx, drill.Query{
		Drill: now.Drill, Until: parsed(*now.StartedAt), Limit: 1,
		Verdicts: []drill.Verdict{drill.Passed, drill.Failed, drill.Inconclusive},
	})
	if err != nil || len(list.Items) == 0 || list.Items[0].Drill != now.Drill {
		return nil
	}
	before := list.Items[0]
	d := &runDifference{Before: runRowOf(before), Rows: differencesOf(before, now.DrillRun), Changed: before.SpecVersion != now.SpecVersion}
	if d.Changed {
		if old, err := p.api(v).Run(ctx, before.ID, api.NoSeries); err == nil {
			d.Lines, d.More = linesApart(specText(old.Spec), specText(now.Spec))
		}
	}
	return d
}

func differencesOf(then, now api.DrillRun) (rows []differenceRow) {
	for _, h := range now.Hypotheses {
		n := slices.IndexFunc(then.Hypotheses, func(o api.DrillHypothesis) bool { return o.Name == h.Name && o.Compare == h.Compare })
		if n < 0 {
			rows = append(rows, differenceRow{measureWord(h.Name), none, amount(h.Value, h.Unit) + " " + ofWord(h), "was not asked for", "idle"})
			continue
		}
		rows = append(rows, differenceOf(then.Hypotheses[n], h))
	}
	for _, h := range then.Hypotheses {
		if !slices.ContainsFunc(now.Hypotheses, func(o api.DrillHypothesis) bool { return o.Name == h.Name && o.Compare == h.Compare }) {
			rows = append(rows, differenceRow{measureWord(h.Name), amount(h.Value, h.Unit) + " " + ofWord(h), none, "is not asked for any more", "idle"})
		}
	}
	if then.RecoveredS != nil && now.RecoveredS != nil {
		rows = append(rows, differenceRow{"well again after", secs(then.RecoveredS), secs(now.RecoveredS), "", "idle"})
	}
	return rows
}

func differenceOf(then, now api.DrillHypothesis) differenceRow {
	row := differenceRow{measureWord(now.Name), amount(then.Value, then.Unit) + " " + ofWord(then), amount(now.Value, now.Unit) + " " + ofWord(now), "the same", "idle"}
	a, known := float(then.Margin)
	b, also := float(now.Margin)
	switch {
	case !known || !also:
		row.Change = "cannot be compared"
	case then.Passed && !now.Passed:
		row.Change, row.Class = "holds no more", "bad"
	case !then.Passed && now.Passed:
		row.Change, row.Class = "holds now", "ok"
	case b > a+0.005:
		row.Change, row.Class = "more to spare", "ok"
	case b < a-0.005:
		row.Change, row.Class = "less to spare", "bad"
	}
	return row
}

// linesApart returns the lines that are only in one of two texts, in their order.
func linesApart(a, b string) (apart []specLine, more bool) {
	old, fresh := strings.Split(a, "\n"), strings.Split(b, "\n")
	const most = 1000
	old, fresh = old[:min(len(old), most)], fresh[:min(len(fresh), most)]
	common := commonLines(old, fresh)
	for i, j := 0, 0; i < len(old) || j < len(fresh); {
		switch {
		case i < len(old) && j < len(fresh) && old[i] == fresh[j]:
			i, j = i+1, j+1
		case j == len(fresh) || i < len(old) && common[i+1][j] >= common[i][j+1]:
			apart = append(apart, specLine{"−", old[i]})
			i++
		default:
			apart = append(apart, specLine{"+", fresh[j]})
			j++
		}
	}
	if more = len(apart) > shownLines; more {
		apart = apart[:shownLines]
	}
	return apart, more
}

// commonLines returns how many lines the rests of two texts have in common, from
// each place in them on (Wagner and Fischer, "The String-to-String Correction
// Problem", 1974).
func commonLines(a, b []string) [][]int {
	all := make([][]int, len(a)+1)
	for i := range all {
		all[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				all[i][j] = all[i+1][j+1] + 1
			} else {
				all[i][j] = max(all[i+1][j], all[i][j+1])
			}
		}
	}
	return all
}
