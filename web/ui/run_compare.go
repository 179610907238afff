package ui

import (
	"context"
	"slices"
	"strings"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// runComparison is what is different from the run of the same drill before.
type runComparison struct {
	Before  runRow
	Rows    []comparisonRow
	Changed bool       // the definition is another
	Lines   []diffLine // what is different in it
	More    bool       // there is more of that
}

// comparisonRow is one value, then and now.
type comparisonRow struct {
	Name, Then, Now, Change string
	Class                   string // ok: better; bad: worse; idle: the same, or not to be compared
}

// diffLine is a line of a definition that is only in one of two.
type diffLine struct{ Sign, Text string }

const shownLines = 60

// compareWithPrevious compares a run with the one of the same drill before it that went to its
// end, nil if there is none.
func (p *Pages) compareWithPrevious(ctx context.Context, v viewer, now drill.Run) *runComparison {
	if now.Started.IsZero() {
		return nil
	}
	list, err := p.admin.Runs(ctx, drill.Query{
		Drill: now.Drill, Until: now.Started, Limit: 1,
		Verdicts: []drill.Verdict{drill.Passed, drill.Failed, drill.Inconclusive},
	})
	if err != nil || len(list.Items) == 0 || list.Items[0].Drill != now.Drill {
		return nil
	}
	before := list.Items[0]
	d := &runComparison{Before: runRowOf(before), Rows: comparisonRows(before, now), Changed: before.SpecVersion != now.SpecVersion}
	if d.Changed {
		if old, err := p.admin.Run(ctx, before.ID, api.NoSeries); err == nil {
			d.Lines, d.More = diffLines(specText(old.Spec), specText(now.Spec))
		}
	}
	return d
}

func comparisonRows(then, now drill.Run) (rows []comparisonRow) {
	for _, h := range now.Hypotheses {
		n := slices.IndexFunc(then.Hypotheses, func(o drill.Hypothesis) bool { return o.Measure == h.Measure && o.Compare == h.Compare })
		if n < 0 {
			rows = append(rows, comparisonRow{measureName(h.Measure), dash, measured(h) + " " + ofLimitText(h), "was not required", "idle"})
			continue
		}
		rows = append(rows, compareHypothesis(then.Hypotheses[n], h))
	}
	for _, h := range then.Hypotheses {
		if !slices.ContainsFunc(now.Hypotheses, func(o drill.Hypothesis) bool { return o.Measure == h.Measure && o.Compare == h.Compare }) {
			rows = append(rows, comparisonRow{measureName(h.Measure), measured(h) + " " + ofLimitText(h), dash, "is no longer required", "idle"})
		}
	}
	if then.Recovered > 0 && now.Recovered > 0 {
		rows = append(rows, comparisonRow{"recovered after", formatSeconds(then.Recovered.Seconds()), formatSeconds(now.Recovered.Seconds()), "", "idle"})
	}
	return rows
}

func compareHypothesis(then, now drill.Hypothesis) comparisonRow {
	row := comparisonRow{measureName(now.Measure), measured(then) + " " + ofLimitText(then), measured(now) + " " + ofLimitText(now), "the same", "idle"}
	a, b := then.Margin, now.Margin
	switch {
	case !then.Measured || !now.Measured:
		row.Change = "cannot be compared"
	case then.Passed && !now.Passed:
		row.Change, row.Class = "no longer holds", "bad"
	case !then.Passed && now.Passed:
		row.Change, row.Class = "holds now", "ok"
	case b > a+0.005:
		row.Change, row.Class = "larger margin", "ok"
	case b < a-0.005:
		row.Change, row.Class = "smaller margin", "bad"
	}
	return row
}

// diffLines returns the lines that are only in one of two texts, in their order.
func diffLines(a, b string) (apart []diffLine, more bool) {
	old, fresh := strings.Split(a, "\n"), strings.Split(b, "\n")
	const most = 1000
	old, fresh = old[:min(len(old), most)], fresh[:min(len(fresh), most)]
	common := lcsLengths(old, fresh)
	for i, j := 0, 0; i < len(old) || j < len(fresh); {
		switch {
		case i < len(old) && j < len(fresh) && old[i] == fresh[j]:
			i, j = i+1, j+1
		case j == len(fresh) || i < len(old) && common[i+1][j] >= common[i][j+1]:
			apart = append(apart, diffLine{"−", old[i]})
			i++
		default:
			apart = append(apart, diffLine{"+", fresh[j]})
			j++
		}
	}
	if more = len(apart) > shownLines; more {
		apart = apart[:shownLines]
	}
	return apart, more
}

// lcsLengths returns how many lines the rests of two texts have in common, from
// each place in them on (Wagner and Fischer, "The String-to-String Correction
// Problem", 1974).
func lcsLengths(a, b []string) [][]int {
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
