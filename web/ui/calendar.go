package ui

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// weeks is how many weeks a calendar has: the one that it is, and a year before.
const weeks = 53

const oneDay = 24 * time.Hour

// calendar is a year of drills, a column for each week.
type calendar struct {
	Months []monthHead
	Rows   []weekday
	Runs   int // in all of it
}

// monthHead stands over the weeks that begin in a month.
type monthHead struct {
	Name string // empty: too narrow for one
	Span int
}

// weekday is a row: the same day of every week.
type weekday struct {
	Name string
	Days []calendarDay
}

// calendarDay is the result of the runs of a day.
type calendarDay struct {
	Class, Sign string // of the worst verdict; empty: no run
	Summary     string // with its date
	Path        string // of its runs
	Future      bool   // it is still to come
}

// firstDay is the Monday that a calendar begins with.
func firstDay(now time.Time) time.Time {
	today := now.UTC().Truncate(oneDay)
	return today.AddDate(0, 0, -(int(today.Weekday())+6)%7-7*(weeks-1))
}

// calendarOf makes a calendar of sums over days. Their runs are shown with the
// drill of the filter.
func calendarOf(days []api.DrillDay, drill string, now time.Time) calendar {
	counts := make(map[string]map[string]int)
	c := calendar{}
	for _, d := range days {
		if counts[d.Day] == nil {
			counts[d.Day] = make(map[string]int)
		}
		for v, n := range d.Verdicts {
			counts[d.Day][v] += n
			c.Runs += n
		}
	}
	first := firstDay(now)
	for n := range 7 {
		row := weekday{Name: first.AddDate(0, 0, n).Format("Mon")}
		for week := range weeks {
			at := first.AddDate(0, 0, 7*week+n)
			row.Days = append(row.Days, calendarDayOf(at, counts[at.Format(dayLayout)], drill, now))
		}
		c.Rows = append(c.Rows, row)
	}
	c.Months = monthHeads(first)
	return c
}

func monthHeads(first time.Time) (all []monthHead) {
	for week := range weeks {
		name := first.AddDate(0, 0, 7*week).Format("Jan")
		if n := len(all); n > 0 && all[n-1].Name == name {
			all[n-1].Span++
			continue
		}
		all = append(all, monthHead{name, 1})
	}
	for n := range all {
		if all[n].Span < 2 {
			all[n].Name = ""
		}
	}
	return all
}

func calendarDayOf(at time.Time, counts map[string]int, of string, now time.Time) calendarDay {
	d := calendarDay{Future: at.After(now)}
	if len(counts) == 0 {
		return d
	}
	look := worstVerdict(counts)
	d.Class, d.Sign, d.Summary = look.Class, look.Sign, at.Format("2 Jan")+": "+countsText(counts)
	values := url.Values{"day": {at.Format(dayLayout)}}
	if of != "" {
		values.Set("drill", of)
	}
	d.Path = "?" + values.Encode() + "#filter"
	return d
}

// countsText says how many runs of a day ended how. There are hundreds of days on a page,
// so that it is short: of many kinds the rarer ones are only counted.
func countsText(counts map[string]int) string {
	const kinds = 2
	var said []string
	rest := 0
	for _, v := range drill.Verdicts() {
		switch n := counts[string(v)]; {
		case n > 0 && len(said) < kinds:
			said = append(said, fmt.Sprintf("%d %s", n, v))
		default:
			rest += n
		}
	}
	if rest > 0 {
		said = append(said, fmt.Sprintf("%d else", rest))
	}
	return strings.Join(said, ", ")
}

// worstVerdict is what a day counts as: a failure before anything else, what has shown
// nothing before a pass, and what was not begun last.
func worstVerdict(counts map[string]int) verdictLabel {
	for _, v := range []drill.Verdict{drill.Failed, drill.Interrupted, drill.Aborted, drill.Inconclusive, drill.Passed, drill.Missed, drill.Skipped} {
		if counts[string(v)] > 0 {
			return verdictLabelOf(string(v))
		}
	}
	return verdictLabelOf("")
}

// drillStanding is how a drill stands, in a line.
type drillStanding struct {
	api.DrillLatest
	Label     verdictLabel
	PassedAgo string // how long ago; empty: never
	Overdue   bool
	PassRate  string // how many of those that were judged in the year passed
}

// maxStandings bounds the drills that are told of above the list.
const maxStandings = 30

// standingsOf says how drills stand, those that ran last first.
func standingsOf(h api.DrillHistory, known []api.DrillSummary, now time.Time) (all []drillStanding) {
	for _, l := range h.Latest {
		l.Name = format.Truncate(l.Name, shownName)
		s := drillStanding{DrillLatest: l, Label: verdictLabelOf(l.Verdict)}
		if l.PassedAt != nil {
			s.PassedAgo = format.Ago(now.Sub(parseTime(*l.PassedAt)))
		}
		n := slices.IndexFunc(known, func(d api.DrillSummary) bool { return d.ID == l.Drill })
		s.Overdue = n >= 0 && known[n].Overdue
		if t := countVerdicts(h.Days, func(d api.DrillDay) bool { return d.Drill == l.Drill }); t.evaluated() > 0 {
			s.PassRate = fmt.Sprintf("%d of %s", t.passed, format.Plural(t.evaluated(), "run"))
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b drillStanding) int { return strings.Compare(b.At, a.At) })
	return all[:min(len(all), maxStandings)]
}

// verdictCounts counts how runs ended.
type verdictCounts struct{ passed, failed, other, notRun int }

// evaluated is how many runs were begun.
func (t verdictCounts) evaluated() int { return t.passed + t.failed + t.other }

func countVerdicts(days []api.DrillDay, counts func(api.DrillDay) bool) (t verdictCounts) {
	for _, d := range days {
		if !counts(d) {
			continue
		}
		for v, n := range d.Verdicts {
			switch drill.Verdict(v) {
			case drill.Passed:
				t.passed += n
			case drill.Failed:
				t.failed += n
			case drill.Skipped, drill.Missed:
				t.notRun += n
			default:
				t.other += n
			}
		}
	}
	return t
}
