package ui

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"headgate/engine/tsdb"
	"headgate/internal/format"
)

// chart is one picture of values over time, with what it shows as text and table.
type chart struct {
	ID    string
	Pool  string
	Title string
	Unit  string // s, ratio, or what is counted
	From  time.Time
	To    time.Time
	Step  time.Duration
	Lines []chartLine
	Limit *chartLimit
	Bands []band

	Epoch time.Time // set: times are shown as time from then, not as times of day
}

// chartLine is one line. The first one of a chart is solid and filled, the second
// dashed: they differ without colour too.
type chartLine struct {
	Name   string
	Points []tsdb.Point // oldest first
}

// chartLimit is a threshold.
type chartLimit struct {
	V    float64
	Name string // with the value

	Capacity bool // it cannot be passed, and being there is no trouble
}

// band is a time in which a pool was in some mode, or in which something else was
// so. It begins with a change, and is shaded unless the pool enforced.
type band struct {
	From, To time.Time
	Mode     string
	Name     string // instead of a mode
	Begins   bool   // the change is within the chart
}

// label is what stands where a band begins.
func (b band) label() string {
	if b.Name != "" {
		return b.Name
	}
	m := modeLabelOf(b.Mode)
	return m.Sign + " " + m.Text
}

// describe is what a band is in the description of its chart.
func (b band) describe(c chart) string {
	if b.Name != "" {
		return fmt.Sprintf(" %s from %s to %s.", format.Sentence(b.Name), c.formatTime(b.From, "15:04:05"), c.formatTime(b.To, "15:04:05"))
	}
	return fmt.Sprintf(" To %s at %s.", modeLabelOf(b.Mode).Text, c.formatTime(b.From, "15:04:05"))
}

// formatTime writes a time as the chart shows times.
func (c chart) formatTime(t time.Time, layout string) string {
	if c.Epoch.IsZero() {
		return t.UTC().Format(layout)
	}
	return formatElapsed(t.Sub(c.Epoch))
}

// formatElapsed writes a time from some beginning, or before it.
func formatElapsed(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d == 0:
		return "0"
	case d < 0:
		return "−" + format.Text.Duration(-d)
	}
	return format.Text.Duration(d)
}

// Picture draws the chart.
func (c chart) Picture() template.HTML { return (&svgWriter{c: c}).svg() }

// Latest is the newest value of the first line.
func (c chart) Latest() string {
	if len(c.Lines) == 0 || len(c.Lines[0].Points) == 0 {
		return dash
	}
	all := c.Lines[0].Points
	newest := all[len(all)-1]
	if c.Epoch.IsZero() && c.To.Sub(newest.At) > 4*c.Step {
		return dash
	}
	return formatValue(newest.V, c.Unit)
}

// Empty says that no data is left to draw.
func (c chart) Empty() bool {
	for _, l := range c.Lines {
		if len(l.Points) > 0 {
			return false
		}
	}
	return true
}

// Describe says in words what the picture shows.
func (c chart) Describe() string {
	text := fmt.Sprintf("From %s to %s UTC.", c.formatTime(c.From, "15:04"), c.formatTime(c.To, "15:04"))
	if !c.Epoch.IsZero() {
		text = fmt.Sprintf("From %s to %s.", c.formatTime(c.From, ""), c.formatTime(c.To, ""))
	}
	for _, l := range c.Lines {
		if len(l.Points) == 0 {
			continue
		}
		top := l.Points[0]
		for _, p := range l.Points {
			if p.V > top.V {
				top = p
			}
		}
		text += fmt.Sprintf(" %s: at most %s, at %s; in the end %s.", l.Name, formatValue(top.V, c.Unit),
			c.formatTime(top.At, "15:04:05"), formatValue(l.Points[len(l.Points)-1].V, c.Unit))
	}
	if c.Limit != nil {
		text += " Line: " + c.Limit.Name + "."
	}
	for _, b := range c.Bands {
		if b.Begins {
			text += b.describe(c)
		}
	}
	return text
}

// tableRows is how many rows the table of a chart has, at most one more.
const tableRows = 12

// row is one time of a chart's table, with the value of every line.
type row struct {
	At     time.Time
	Shown  template.HTML // the same as the chart shows times
	Values []string
}

// Rows are the highest values of equal parts of the time, newest first.
func (c chart) Rows() []row {
	part := c.To.Sub(c.From) / tableRows
	if part <= 0 {
		return nil
	}
	var all []row
	for to := c.To; to.After(c.From); to = to.Add(-part) {
		r := row{At: to, Shown: clockTime(to)}
		if !c.Epoch.IsZero() {
			r.Shown = template.HTML(c.formatTime(to, "")) // made of digits and units
		}
		known := false
		for _, l := range c.Lines {
			v, ok := highest(l.Points, to.Add(-part), to)
			known = known || ok
			if !ok {
				v = math.NaN()
			}
			r.Values = append(r.Values, formatValue(v, c.Unit))
		}
		if known {
			all = append(all, r)
		}
	}
	return all
}

// highest returns the highest value after from, up to to.
func highest(all []tsdb.Point, from, to time.Time) (top float64, ok bool) {
	for _, p := range all {
		if p.At.After(from) && !p.At.After(to) && (!ok || p.V > top) {
			top, ok = p.V, true
		}
	}
	return top, ok
}

// Part is the length of time that a row of the table stands for.
func (c chart) Part() string { return format.Text.Duration(c.To.Sub(c.From) / tableRows) }

// Sizes of a drawing. It is scaled to the width that it gets.
const (
	drawWidth           = 420
	plotLeft, plotRight = 40, 414
	plotTop, plotBottom = 12, 148
)

// svgWriter turns a chart into SVG. There is no style in it: the pages' own style
// sheet knows the classes, so that it follows light and dark.
type svgWriter struct {
	c chart
	b strings.Builder
	y axis
}

// svg draws bands first, then grid and lines, the limit last: later parts cover earlier ones.
func (d *svgWriter) svg() template.HTML {
	d.y = newAxis(d.top(), d.c.Unit)
	d.begin(template.HTMLEscapeString(d.c.ID), d.c.Title+" of "+d.c.Pool, d.c.Describe())
	d.bands()
	d.grid()
	for i, l := range d.c.Lines {
		if i == 0 {
			d.area(l.Points)
		}
		d.line(i+1, l.Points)
	}
	d.limit()
	d.raw(`</svg>`)
	return template.HTML(d.b.String()) // built from numbers, constants and escaped text
}

// raw writes markup, and numbers as coordinates: one digit after the point is less than can be seen.
func (d *svgWriter) raw(parts ...any) {
	for _, p := range parts {
		if v, ok := p.(float64); ok {
			p = strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
		}
		fmt.Fprint(&d.b, p)
	}
}

// text writes text as XML takes it.
func (d *svgWriter) text(s string) {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\uFFFE' || r == '\uFFFF' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	d.b.WriteString(template.HTMLEscapeString(clean))
}

// top is the highest value that has to be seen.
func (d *svgWriter) top() float64 {
	top := 0.0
	if d.c.Limit != nil {
		top = d.c.Limit.V * 1.15
	}
	for _, l := range d.c.Lines {
		for _, p := range l.Points {
			top = max(top, p.V)
		}
	}
	return top
}

// x is where a time stands, in whole pixels.
func (d *svgWriter) x(t time.Time) float64 {
	share := float64(t.Sub(d.c.From)) / float64(max(d.c.To.Sub(d.c.From), 1))
	return math.Round(plotLeft + min(max(share, 0), 1)*(plotRight-plotLeft))
}

// at is where a value stands.
func (d *svgWriter) at(v float64) float64 {
	return plotBottom - min(max((v-d.y.min)/(d.y.max-d.y.min), 0), 1)*(plotBottom-plotTop)
}

// grid draws the grid with its labels. A script replaces times of day with the zone of the viewer.
func (d *svgWriter) grid() {
	d.yGrid()
	for _, t := range d.c.ticks() {
		x := d.x(t)
		d.raw(`<path class="grid" d="M`, x, ` 148v4"/><text class="tick mid" x="`, x, `" y="164">`)
		if d.c.Epoch.IsZero() {
			d.raw(`<tspan data-clock="`, t.UTC().Format(time.RFC3339), `">`, t.UTC().Format("15:04"), `</tspan></text>`)
		} else {
			d.raw(formatElapsed(t.Sub(d.c.Epoch)), `</text>`)
		}
	}
}

// bands shade the times in which the pool did not enforce, and mark changes.
func (d *svgWriter) bands() {
	free := 0.0 // where there is room for a label
	for _, b := range d.c.Bands {
		from, to := d.x(b.From), d.x(b.To)
		if b.Mode != "enforce" {
			d.raw(`<rect class="band" x="`, from, `" y="12" width="`, to-from, `" height="136"/>`)
		}
		if b.Begins {
			d.raw(`<path class="change" d="M`, from, ` 6v142"/>`)
			free = d.changeLabel(from, b.label(), free)
		}
	}
}

// changeLabel labels a change if there is room, and returns where the next label has
// room. The description has the changes that are not labelled.
func (d *svgWriter) changeLabel(x float64, label string, free float64) float64 {
	const letter, gap = 5.6, 3
	width := letter * float64(len([]rune(label)))
	left := x + gap
	if left+width > drawWidth {
		left = x - gap - width
	}
	if left < free {
		return free
	}
	d.raw(`<text class="change" x="`, left, `" y="9">`)
	d.text(label)
	d.raw(`</text>`)
	return left + width + gap
}

// area fills what is below a line.
func (d *svgWriter) area(points []tsdb.Point) {
	d.raw(`<path class="area" d="`)
	for _, part := range d.splitAtGaps(points) {
		d.raw(`M`, d.x(part[0].At), ` 148`)
		d.path("L", part)
		d.raw(`L`, d.x(part[len(part)-1].At), ` 148Z`)
	}
	d.raw(`"/>`)
}

// line draws the line of a number, from 1.
func (d *svgWriter) line(n int, points []tsdb.Point) {
	d.raw(`<path class="line l`, n, `" d="`)
	for _, part := range d.splitAtGaps(points) {
		d.path("M", part)
	}
	d.raw(`"/>`)
}

// path goes through points; the command for the first one is given.
func (d *svgWriter) path(command string, points []tsdb.Point) {
	for _, p := range points {
		d.raw(command, d.x(p.At), " ", d.at(p.V))
		command = "L"
	}
}

// splitAtGaps parts points, oldest first, where none is for longer than two and a half steps.
func (d *svgWriter) splitAtGaps(points []tsdb.Point) (parts [][]tsdb.Point) {
	from := 0
	for n := range points {
		if n+1 == len(points) || points[n+1].At.Sub(points[n].At) > d.c.Step*5/2 {
			parts, from = append(parts, points[from:n+1]), n+1
		}
	}
	return parts
}

func (d *svgWriter) limit() {
	if d.c.Limit == nil {
		return
	}
	y, class := d.at(d.c.Limit.V), "limit"
	if d.c.Limit.Capacity {
		class = "cap"
	}
	d.raw(`<path class="`, class, `" d="M40 `, y, `H414"/><text class="`, class, `" x="44" y="`, y, `" dy="-3">`)
	d.text(d.c.Limit.Name)
	d.raw(`</text>`)
}

// axis is a scale of values.
type axis struct {
	min, max float64
	ticks    []float64
	unit     string
}

// newAxis has two to five ticks at round numbers, up to at least top.
func newAxis(top float64, unit string) axis {
	least := 1.0
	if unit == "ratio" {
		least = 0.1
	}
	top = max(top, least)
	if unit == "s" && top > maxSecondsAxis {
		return newTimeAxis(top)
	}
	unitStep := math.Pow(10, math.Floor(math.Log10(top))-1)
	step := pickStep(top, maxTicks, unitStep, 2*unitStep, 5*unitStep, 10*unitStep, 20*unitStep, 50*unitStep)
	if unit != "ratio" && unit != "s" {
		step = max(step, 1)
	}
	return steppedAxis(top, step, unit)
}

// How many steps an axis of values, and one of time, has at most.
const maxTicks, maxTimeTicks = 4.5, 6.99

// pickStep returns the first step, of those that grow, of which at most so many fit; else the last.
func pickStep[T ~int64 | ~float64](span T, most float64, steps ...T) T {
	for _, s := range steps {
		if float64(span)/float64(s) <= most {
			return s
		}
	}
	return steps[len(steps)-1]
}

// steppedAxis reaches from 0 to the first multiple of a step that is not below top.
func steppedAxis(top, step float64, unit string) axis {
	a := axis{unit: unit, max: math.Ceil(top/step) * step}
	for n := range int(math.Round(a.max/step)) + 1 {
		a.ticks = append(a.ticks, float64(n)*step)
	}
	return a
}

// maxSecondsAxis is up to how many seconds an axis shows seconds.
const maxSecondsAxis = 300

// newTimeAxis has ticks at round minutes, hours or days.
func newTimeAxis(top float64) axis {
	const minute, hour, day = 60, 3600, 86400
	step := pickStep(top, maxTicks, minute, 2*minute, 5*minute, 10*minute, 15*minute, 30*minute, hour, 2*hour, 6*hour, 12*hour, day)
	if step == day {
		step *= math.Ceil(top / day / maxTicks)
	}
	return steppedAxis(top, step, "s")
}

func (a axis) label(v float64) string {
	switch {
	case a.unit == "margin":
		return signedPercent(v)
	case a.unit == "ratio":
		return format.Text.Percent(math.Round(v*1000) / 1000)
	case a.unit == "s" && a.max > maxSecondsAxis && len(a.ticks) > 1 && math.Mod(a.ticks[1], 3600) == 0:
		return strconv.FormatFloat(v/3600, 'f', -1, 64) + " h"
	case a.unit == "s" && a.max > maxSecondsAxis:
		return strconv.FormatFloat(math.Round(v/6)/10, 'f', -1, 64) + " min"
	case a.unit == "s":
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + " s"
	default:
		return formatNumber(math.Round(v*100) / 100)
	}
}

// ticks are the times that stand below the chart.
func (c chart) ticks() (all []time.Time) {
	if c.Epoch.IsZero() {
		return timeTicks(c.From, c.To)
	}
	step := pickStep(c.To.Sub(c.From), maxTimeTicks,
		10*time.Second, 30*time.Second, time.Minute, 2*time.Minute, 5*time.Minute, 10*time.Minute, 30*time.Minute)
	for t := c.Epoch.Add(-c.Epoch.Sub(c.From) / step * step); !t.After(c.To); t = t.Add(step) {
		if !t.Before(c.From) {
			all = append(all, t)
		}
	}
	return all
}

// timeTicks are three to six round times within the chart.
func timeTicks(from, to time.Time) []time.Time {
	step := pickStep(to.Sub(from), maxTimeTicks, 3*time.Minute, 10*time.Minute, time.Hour, 4*time.Hour)
	var all []time.Time
	for t := from.Truncate(step).Add(step); !t.After(to); t = t.Add(step) {
		all = append(all, t)
	}
	return all
}
