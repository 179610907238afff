package ui

import (
	"fmt"
	"html/template"
	"math"
	"time"

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
		return fmt.Sprintf(" %s from %s to %s.", upperFirst(b.Name), c.formatTime(b.From, "15:04:05"), c.formatTime(b.To, "15:04:05"))
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
	if d < 0 {
		return "−" + formatElapsed(-d)
	}
	d = d.Round(time.Second)
	switch {
	case d == 0:
		return "0"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d/time.Second))
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	default:
		return fmt.Sprintf("%d min %d s", int(d/time.Minute), int(d%time.Minute/time.Second))
	}
}

// Picture draws the chart.
func (c chart) Picture() template.HTML { return svgWriter{c: c}.svg() }

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
