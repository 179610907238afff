package ui

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/web/api"
)

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
	return format.Text.Percent(math.Round(100*float64(m.passed)/float64(m.evaluated())) / 100)
}

// Passed, Failed, Neither and Unbegun are how many runs ended so.
func (m monthTrend) Passed() int { return m.passed }
func (m monthTrend) Failed() int { return m.failed }
func (m monthTrend) Other() int  { return m.other }
func (m monthTrend) NotRun() int { return m.notRun }

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
	d := svgWriter{c: chart{Title: "How runs ended, by month"}, y: axis{max: 1, ticks: []float64{0, 0.5, 1}, unit: "ratio"}}
	d.begin("trend-rates", t.describeRates())
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

func (d *svgWriter) month(m monthTrend, left, wide float64) {
	mid := formatCoord(left + wide/2)
	d.raw(`<text class="tick mid" x="`, mid, `" y="164">`, m.At.Format("Jan")[:1], `</text>`)
	all := float64(m.evaluated())
	if all == 0 {
		return
	}
	x, bar, from := formatCoord(left+2), formatCoord(wide-4), 0.0
	for _, part := range []struct {
		class string
		n     int
	}{{"ok", m.passed}, {"warn", m.other}, {"bad", m.failed}} {
		if part.n == 0 {
			continue
		}
		to := from + float64(part.n)/all
		d.raw(`<rect class="part `, part.class, `" x="`, x, `" width="`, bar, `" y="`, d.at(to), `" height="`, formatCoord(parseCoord(d.at(from))-parseCoord(d.at(to))), `"/>`)
		from = to
	}
	d.raw(`<text class="mid rate" x="`, mid, `" y="9">`, strings.TrimSuffix(m.Rate(), " %"), `</text>`)
}

func (t trends) describeRates() string {
	var said []string
	for _, m := range t.Months {
		if m.evaluated() > 0 {
			said = append(said, fmt.Sprintf("%s: %d of %d passed", m.Name(), m.passed, m.evaluated()))
		}
	}
	return strings.Join(said, "; ") + "."
}

// begin begins a drawing with its name and what it shows.
func (d *svgWriter) begin(id, says string) {
	d.raw(`<svg class="chart" viewBox="0 0 420 170" role="img" focusable="false" aria-labelledby="`, id, `-t `, id, `-d"><title id="`, id, `-t">`)
	d.text(d.c.Title)
	d.raw(`</title><desc id="`, id, `-d">`)
	d.text(says)
	d.raw(`</desc>`)
}

// Lines draws the margins by week: the tightest of all runs, and the mean.
func (t trends) Lines() template.HTML {
	d := svgWriter{c: chart{Title: "Margins, by week"}}
	d.begin("trend-margins", t.describeMargins())
	low, high := t.scale()
	y := func(v float64) string {
		share := (min(max(v, low), high) - low) / (high - low)
		return formatCoord(plotBottom - share*(plotBottom-plotTop))
	}
	if low < 0 {
		d.raw(`<rect class="band below" x="40" width="374" y="`, y(0), `" height="`, formatCoord(plotBottom-parseCoord(y(0))), `"/>`)
	}
	for v := low; v <= high+0.01; v += marginStep(low, high) {
		d.raw(`<path class="grid" d="M40 `, y(v), `H414"/><text class="tick end" x="35" y="`, y(v), `" dy="4">`)
		d.text(signedPercent(v))
		d.raw(`</text>`)
	}
	first := t.Margins[0].At
	end := t.Margins[len(t.Margins)-1].At
	d.c.From, d.c.To = first.AddDate(0, 0, -7), end.AddDate(0, 0, 7)
	d.monthTicks()
	d.margins("l2", func(w weekTrend) string { return y(w.Mean) }, t.Margins)
	d.margins("l1", func(w weekTrend) string { return y(w.Min) }, t.Margins)
	d.raw(`<path class="limit" d="M40 `, y(0), `H414"/><text class="limit end" x="412" y="`, y(0), `" dy="11">the limit</text></svg>`)
	return template.HTML(d.b.String()) // built from numbers, constants and escaped text
}

func (d *svgWriter) monthTicks() {
	from := d.c.From
	for at := time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC); !at.After(d.c.To); at = at.AddDate(0, 1, 0) {
		d.raw(`<path class="grid" d="M`, d.x(at), ` 148v4"/><text class="tick mid" x="`, d.x(at), `" y="164">`, at.Format("Jan")[:1], `</text>`)
	}
}

// margins draws a line, broken where there was no run for long, with a dot for each
// week.
func (d *svgWriter) margins(class string, y func(weekTrend) string, all []weekTrend) {
	const long = 5 * 7 * oneDay
	var path, dots strings.Builder
	for n, w := range all {
		step := "L"
		if n == 0 || w.At.Sub(all[n-1].At) > long {
			step = "M"
		}
		path.WriteString(step + d.x(w.At) + " " + y(w))
		if class == "l1" {
			dots.WriteString(`<circle class="dot" cx="` + d.x(w.At) + `" cy="` + y(w) + `" r="2.2"/>`)
		}
	}
	d.raw(`<path class="line `, class, `" d="`, path.String(), `"/>`, dots.String())
}

// scale is what the margins lie within, in quarters, never more than the whole limit
// either way: what is further away is drawn at the edge.
func (t trends) scale() (low, high float64) {
	high = 0.25
	for _, w := range t.Margins {
		low, high = min(low, w.Min), max(high, w.Mean, w.Min)
	}
	return max(math.Floor(low*4)/4, -1), min(math.Ceil(high*4)/4, 1)
}

func marginStep(low, high float64) float64 {
	if high-low > 1 {
		return 0.5
	}
	return 0.25
}

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
