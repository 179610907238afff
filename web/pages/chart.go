package pages

import (
	"fmt"
	"html/template"
	"math"
	"time"

	"headgate/engine/samples"
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
}

// chartLine is one line. The first one of a chart is solid and filled, the second
// dashed: they differ without colour too.
type chartLine struct {
	Name   string
	Points []samples.Point // oldest first
}

// chartLimit is a threshold.
type chartLimit struct {
	V    float64
	Name string // with the value

	Natural bool // it cannot be passed, and being there is no trouble
}

// band is a time in which a pool was in some mode. It begins with a change, and is
// shaded unless the pool enforced.
type band struct {
	From, To time.Time
	Mode     string
	Begins   bool // the change is within the chart
}

// Picture draws the chart.
func (c chart) Picture() template.HTML { return drawing{c: c}.svg() }

// Latest is the newest value of the first line.
func (c chart) Latest() string {
	if len(c.Lines) == 0 || len(c.Lines[0].Points) == 0 {
		return none
	}
	all := c.Lines[0].Points
	newest := all[len(all)-1]
	if c.To.Sub(newest.At) > 4*c.Step {
		return none
	}
	return number(newest.V, c.Unit)
}

// Empty says that there is nothing to draw.
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
	text := fmt.Sprintf("From %s to %s UTC.", c.From.UTC().Format("15:04"), c.To.UTC().Format("15:04"))
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
		text += fmt.Sprintf(" %s: at most %s, at %s; in the end %s.", l.Name, number(top.V, c.Unit),
			top.At.UTC().Format("15:04:05"), number(l.Points[len(l.Points)-1].V, c.Unit))
	}
	if c.Limit != nil {
		text += " Line: " + c.Limit.Name + "."
	}
	for _, b := range c.Bands {
		if b.Begins {
			text += fmt.Sprintf(" To %s at %s.", modeWord(b.Mode).Word, b.From.UTC().Format("15:04:05"))
		}
	}
	return text
}

// tableRows is how many rows the table of a chart has, at most one more.
const tableRows = 12

// row is one time of a chart's table, with the value of every line.
type row struct {
	At     time.Time
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
		r := row{At: to}
		known := false
		for _, l := range c.Lines {
			v, ok := highest(l.Points, to.Add(-part), to)
			known = known || ok
			if !ok {
				v = math.NaN()
			}
			r.Values = append(r.Values, number(v, c.Unit))
		}
		if known {
			all = append(all, r)
		}
	}
	return all
}

// highest returns the highest value after from, up to to.
func highest(all []samples.Point, from, to time.Time) (top float64, ok bool) {
	for _, p := range all {
		if p.At.After(from) && !p.At.After(to) && (!ok || p.V > top) {
			top, ok = p.V, true
		}
	}
	return top, ok
}

// Part is the length of time that a row of the table stands for.
func (c chart) Part() string { return span(c.To.Sub(c.From) / tableRows) }
