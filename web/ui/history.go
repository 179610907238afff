package ui

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/engine/tsdb"
	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// historyView is the page of what drills have shown.
type historyView struct {
	Filter   historyFilter
	Drills   []choice
	Verdicts []choice
	Triggers []choice
	Rows     []runRow
	pager
	Filtered bool
	None     bool      // this headgate runs no drills
	Year     *yearView // nil: nothing has run yet, or it could not be read
	JSON     string
	CSV      string
}

func (p *Pages) history(w http.ResponseWriter, r *http.Request, v viewer) error {
	now := time.Now()
	f := historyFilterOf(r.URL.Query())
	query, err := f.query(r.URL.Query().Get("after"), now)
	if err != nil {
		return err
	}
	list, err := p.admin.Runs(r.Context(), query)
	if isProblemType(err, api.TypeNoDrills) {
		return p.show(w, r, v, http.StatusOK, page{Title: "Drills", NavPath: drillsPath, Body: historyView{None: true}}, "drills")
	}
	if err != nil {
		return err
	}
	view := historyView{
		Filter: f, Verdicts: verdictChoices(), Triggers: triggerChoices(), pager: pagerOf(r.URL, list.Next),
		Filtered: f != historyFilter{}, JSON: exportPath("runs.json", query), CSV: exportPath("runs.csv", query),
	}
	for _, run := range list.Items {
		view.Rows = append(view.Rows, runRowOf(run))
	}
	known := p.listDrills(r.Context())
	view.Drills = drillChoices(known, f.Drill)
	if r.Header.Get(refreshHeader) == "" { // only the list is refreshed
		view.Year = p.loadYear(r.Context(), f.Drill, known, now)
	}
	return p.show(w, r, v, http.StatusOK, page{Title: "Drills", NavPath: drillsPath, Refresh: 10, Body: view}, "drills")
}

// yearView is the results of drills, or of one of them, in a year.
type yearView struct {
	Drill, Name string // of the filter; empty: all
	Calendar    calendar
	Trends      *trends // nil: no run has ended
	Standings   []drillStanding
}

// loadYear reads a year of results. Without it the page still has its list, so that an error is only logged.
func (p *Pages) loadYear(ctx context.Context, of string, known []api.DrillSummary, now time.Time) *yearView {
	h, err := p.admin.DrillHistory(ctx, drill.HistoryQuery{Drill: of, Since: firstDay(now), Until: now})
	if err != nil {
		p.log.Warn("the history of drills is shown without its calendar", "error", err)
		return nil
	}
	if len(h.Latest) == 0 {
		return nil
	}
	y := &yearView{Drill: of, Name: of, Calendar: calendarOf(h.Days, of, now), Standings: standingsOf(h, known, now)}
	if of != "" && len(y.Standings) == 1 {
		y.Name = y.Standings[0].Name
	}
	if len(h.Days) > 0 {
		t := trendsOf(h.Days, now)
		y.Trends = &t
	}
	return y
}

func (p *Pages) listDrills(ctx context.Context) []api.DrillSummary {
	list, err := p.admin.Drills(ctx)
	if err != nil {
		p.log.Warn("the history of drills is shown without a list of them", "error", err)
	}
	return list.Items
}

// drillChoices are the drills to choose from, and the one that was chosen: it may
// have been removed from the settings.
func drillChoices(known []api.DrillSummary, chosen string) (all []choice) {
	for _, d := range known {
		all = append(all, choice{d.ID, d.Name})
	}
	if chosen != "" && !slices.ContainsFunc(all, func(c choice) bool { return c.Value == chosen }) {
		all = append(all, choice{chosen, chosen})
	}
	return all
}

// historyFilter selects the runs to show. It is the query of the URL.
type historyFilter struct {
	Drill, Verdict, Trigger string
	Since, Until            string // days of UTC, both included; Since may also be a span such as 30d
}

// historyFilterOf reads the filter of a page; day is short for since and until.
func historyFilterOf(q url.Values) historyFilter {
	f := historyFilter{Drill: q.Get("drill"), Verdict: q.Get("verdict"), Trigger: q.Get("trigger"), Since: q.Get("since"), Until: q.Get("until")}
	if day := q.Get("day"); day != "" {
		f.Since, f.Until = day, day
	}
	return f
}

const dayLayout = "2006-01-02"

// query makes a question to the record of a filter.
func (f historyFilter) query(after string, now time.Time) (drill.Query, error) {
	values := url.Values{
		"drill": {f.Drill}, "verdict": {f.Verdict}, "trigger": {f.Trigger}, "since": {dayToRFC3339(f.Since, 0)},
		"until": {dayToRFC3339(f.Until, 1)}, "after": {after}, "limit": {strconv.Itoa(runsPageSize)},
	}
	q, err := api.RunQuery(values, now)
	if err != nil {
		return q, badRequest(err.Error() + ".")
	}
	return q, nil
}

// dayToRFC3339 makes a time of a day, some days after it. What is no day stays.
func dayToRFC3339(day string, later int) string {
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, later).Format(time.RFC3339)
}

// FirstDay is Since for a field that takes days.
func (f historyFilter) FirstDay() string { return toDay(f.Since, time.Now()) }

// LastDay is Until for a field that takes days.
func (f historyFilter) LastDay() string { return toDay(f.Until, time.Now()) }

// toDay makes a day of a time or a span, as date fields need it; empty if it is neither.
func toDay(text string, now time.Time) string {
	if _, err := time.Parse(dayLayout, text); err == nil || text == "" {
		return text
	}
	t, err := api.ParseSince(text, now)
	if err != nil {
		return ""
	}
	return t.Format(dayLayout)
}

// runsPageSize is how many runs the history shows at once.
const runsPageSize = 20

// exportPath is where the runs of a filter are had as a file.
func exportPath(file string, q drill.Query) string {
	q.After, q.Limit = "", 0
	path := "/api/v1/" + file
	if values := api.RunParams(q).Encode(); values != "" {
		path += "?" + values
	}
	return path
}

func verdictChoices() (all []choice) {
	for _, v := range drill.Verdicts() {
		all = append(all, choice{string(v), verdictLabelOf(string(v)).Text})
	}
	return all
}

func triggerChoices() []choice {
	return []choice{{"schedule", "schedule"}, {"catch_up", "catch-up"}, {"manual", "by hand"}}
}

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

// calendarDay sums up the runs of a day.
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

// monthHeads spans the weeks by months. A month of one week gets no name: the column is too narrow for one.
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

// maxStandings bounds the drills that are listed above the runs.
const maxStandings = 30

// standingsOf says how drills stand, those that ran last first.
func standingsOf(h api.DrillHistory, known []api.DrillSummary, now time.Time) (all []drillStanding) {
	for _, l := range h.Latest {
		l.Name = format.Truncate(l.Name, shownName)
		s := drillStanding{DrillLatest: l, Label: verdictLabelOf(l.Verdict)}
		if !l.PassedAt.IsZero() {
			s.PassedAgo = format.Ago(now.Sub(l.PassedAt.Time))
		}
		n := slices.IndexFunc(known, func(d api.DrillSummary) bool { return d.ID == l.Drill })
		s.Overdue = n >= 0 && known[n].Overdue
		if t := countVerdicts(h.Days, func(d api.DrillDay) bool { return d.Drill == l.Drill }); t.evaluated() > 0 {
			s.PassRate = fmt.Sprintf("%d of %s", t.Passed, format.Plural(t.evaluated(), "run"))
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b drillStanding) int { return b.At.Compare(a.At.Time) })
	return all[:min(len(all), maxStandings)]
}

// verdictCounts counts how runs ended.
type verdictCounts struct{ Passed, Failed, Other, NotRun int }

// evaluated is how many runs were begun.
func (t verdictCounts) evaluated() int { return t.Passed + t.Failed + t.Other }

func countVerdicts(days []api.DrillDay, counts func(api.DrillDay) bool) (t verdictCounts) {
	for _, d := range days {
		if !counts(d) {
			continue
		}
		for v, n := range d.Verdicts {
			switch drill.Verdict(v) {
			case drill.Passed:
				t.Passed += n
			case drill.Failed:
				t.Failed += n
			case drill.Skipped, drill.Missed:
				t.NotRun += n
			default:
				t.Other += n
			}
		}
	}
	return t
}

// trends are how drills did over a year.
type trends struct {
	Months  []monthTrend
	Margins []weekTrend
}

// monthTrend is how the runs of a month ended.
type monthTrend struct {
	At time.Time // its first day
	verdictCounts
}

// Name is the month, for people.
func (m monthTrend) Name() string { return m.At.Format("January 2006") }

// Rate is the share of runs that passed, of those that were begun.
func (m monthTrend) Rate() string {
	if m.evaluated() == 0 {
		return dash
	}
	return format.Text.Percent(math.Round(100*float64(m.Passed)/float64(m.evaluated())) / 100)
}

// weekTrend is how close to their limits the runs of a week came.
type weekTrend struct {
	At        time.Time // its Monday
	Min, Mean float64   // of the tightest margin of each run
	Runs      int
}

// MinText and MeanText are the margins, for people.
func (w weekTrend) MinText() string  { return signedPercent(w.Min) }
func (w weekTrend) MeanText() string { return signedPercent(w.Mean) }

// Week is when it began, for people.
func (w weekTrend) Week() string { return w.At.Format("2 Jan 2006") }

// signedPercent rounds to whole percent, and uses the minus sign of typography.
func signedPercent(f float64) string {
	if f < 0 {
		return "−" + format.Text.Percent(-math.Round(f*100)/100)
	}
	return format.Text.Percent(math.Round(f*100) / 100)
}

func trendsOf(days []api.DrillDay, now time.Time) (t trends) {
	first := firstDay(now)
	for at := time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC); !at.After(now); at = at.AddDate(0, 1, 0) {
		month := at.Format("2006-01")
		t.Months = append(t.Months, monthTrend{at, countVerdicts(days, func(d api.DrillDay) bool { return strings.HasPrefix(d.Day, month) })})
	}
	for week := range weeks {
		at := first.AddDate(0, 0, 7*week)
		if w := weekTrendOf(days, at); w.Runs > 0 {
			t.Margins = append(t.Margins, w)
		}
	}
	return t
}

// weekTrendOf weighs the mean of each day by its runs with a margin. Days compare as text: they are ISO dates.
func weekTrendOf(days []api.DrillDay, from time.Time) weekTrend {
	w := weekTrend{At: from}
	first, last := from.Format(dayLayout), from.AddDate(0, 0, 6).Format(dayLayout)
	for _, d := range days {
		if d.Day < first || d.Day > last || d.Evaluated == 0 || d.MarginMean == nil || d.MarginMin == nil {
			continue
		}
		if w.Runs == 0 || *d.MarginMin < w.Min {
			w.Min = *d.MarginMin
		}
		w.Mean += *d.MarginMean * float64(d.Evaluated)
		w.Runs += d.Evaluated
	}
	w.Mean /= float64(max(w.Runs, 1))
	return w
}

// Rates draws the shares of runs that passed, failed and did neither, by month.
func (t trends) Rates() template.HTML {
	d := svgWriter{y: axis{max: 1, ticks: []float64{0, 0.5, 1}, unit: "ratio"}}
	d.begin("trend-rates", "How runs ended, by month", t.describeRates())
	d.yGrid()
	wide := float64(plotRight-plotLeft) / float64(len(t.Months))
	for n, m := range t.Months {
		d.month(m, plotLeft+wide*float64(n), wide)
	}
	d.raw(`</svg>`)
	return template.HTML(d.b.String()) // built from numbers, constants and escaped text
}

// yGrid draws the grid of values.
func (d *svgWriter) yGrid() {
	for _, tick := range d.y.ticks {
		y := d.at(tick)
		d.raw(`<path class="grid" d="M40 `, y, `H414"/><text class="tick end" x="35" y="`, y, `" dy="4">`)
		d.text(d.y.label(tick))
		d.raw(`</text>`)
	}
}

// month draws a stacked bar: passed at the bottom, then neither, then failed.
func (d *svgWriter) month(m monthTrend, left, wide float64) {
	mid := left + wide/2
	d.raw(`<text class="tick mid" x="`, mid, `" y="164">`, m.At.Format("Jan")[:1], `</text>`)
	all := float64(m.evaluated())
	if all == 0 {
		return
	}
	from := 0.0
	for _, part := range []struct {
		class string
		n     int
	}{{"ok", m.Passed}, {"warn", m.Other}, {"bad", m.Failed}} {
		if part.n == 0 {
			continue
		}
		to := from + float64(part.n)/all
		d.raw(`<rect class="part `, part.class, `" x="`, left+2, `" width="`, wide-4,
			`" y="`, d.at(to), `" height="`, d.at(from)-d.at(to), `"/>`)
		from = to
	}
	d.raw(`<text class="mid rate" x="`, mid, `" y="9">`, strings.TrimSuffix(m.Rate(), " %"), `</text>`)
}

// describeRates is the text alternative of the chart.
func (t trends) describeRates() string {
	var said []string
	for _, m := range t.Months {
		if m.evaluated() > 0 {
			said = append(said, fmt.Sprintf("%s: %d of %d passed", m.Name(), m.Passed, m.evaluated()))
		}
	}
	return strings.Join(said, "; ") + "."
}

// begin begins a drawing with its name and what it shows.
func (d *svgWriter) begin(id, title, says string) {
	d.raw(`<svg class="chart" viewBox="0 0 420 170" role="img" focusable="false" aria-labelledby="`, id, `-t `, id, `-d"><title id="`, id, `-t">`)
	d.text(title)
	d.raw(`</title><desc id="`, id, `-d">`)
	d.text(says)
	d.raw(`</desc>`)
}

// Lines draws the margins by week: the tightest of all runs, and the mean.
func (t trends) Lines() template.HTML {
	d := svgWriter{y: marginAxis(t.Margins)}
	d.begin("trend-margins", "Margins, by week", t.describeMargins())
	limit := d.at(0)
	if d.y.min < 0 {
		d.raw(`<rect class="band below" x="40" width="374" y="`, limit, `" height="`, plotBottom-limit, `"/>`)
	}
	d.yGrid()
	d.c.From, d.c.To = t.Margins[0].At.AddDate(0, 0, -7), t.Margins[len(t.Margins)-1].At.AddDate(0, 0, 7)
	d.monthTicks()
	var lowest, mean []tsdb.Point
	for _, w := range t.Margins {
		lowest, mean = append(lowest, tsdb.Point{At: w.At, V: w.Min}), append(mean, tsdb.Point{At: w.At, V: w.Mean})
	}
	d.c.Step = 2 * 7 * oneDay // a line is broken where no drill ran for five weeks
	d.line(2, mean)
	d.line(1, lowest)
	for _, p := range lowest {
		d.raw(`<circle class="dot" cx="`, d.x(p.At), `" cy="`, d.at(p.V), `" r="2.2"/>`)
	}
	d.raw(`<path class="limit" d="M40 `, limit, `H414"/><text class="limit end" x="412" y="`, limit, `" dy="11">the limit</text></svg>`)
	return template.HTML(d.b.String()) // built from numbers, constants and escaped text
}

func (d *svgWriter) monthTicks() {
	from := d.c.From
	for at := time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC); !at.After(d.c.To); at = at.AddDate(0, 1, 0) {
		d.raw(`<path class="grid" d="M`, d.x(at), ` 148v4"/><text class="tick mid" x="`, d.x(at), `" y="164">`, at.Format("Jan")[:1], `</text>`)
	}
}

// marginAxis has all margins within quarters of the limit, but never reaches further than the whole limit: margins
// further away are drawn at the edge.
func marginAxis(all []weekTrend) axis {
	a := axis{max: 0.25, unit: "margin"}
	for _, w := range all {
		a.min, a.max = min(a.min, w.Min), max(a.max, w.Mean, w.Min)
	}
	a.min, a.max = max(math.Floor(a.min*4)/4, -1), min(math.Ceil(a.max*4)/4, 1)
	step := pickStep(a.max-a.min, 4, 0.25, 0.5)
	for n := range int((a.max-a.min)/step+0.01) + 1 {
		a.ticks = append(a.ticks, a.min+float64(n)*step)
	}
	return a
}

// describeMargins is the text alternative of the chart.
func (t trends) describeMargins() string {
	worst := t.Margins[0]
	for _, w := range t.Margins {
		if w.Min < worst.Min {
			worst = w
		}
	}
	last := t.Margins[len(t.Margins)-1]
	return fmt.Sprintf("The tightest was %s, in the week of %s; in the last week with runs, of %s, the tightest was %s and the mean %s.",
		worst.MinText(), worst.Week(), last.Week(), last.MinText(), last.MeanText())
}
