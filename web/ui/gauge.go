package ui

import (
	"fmt"
	"html/template"
	"math"
	"strconv"

	"headgate/internal/format"
	"headgate/runbooks/control"
)

// gauge is a number against its limit.
type gauge struct {
	ID      string
	Name    string
	Value   string
	Limit   string // in words; empty: there is none
	Class   string // ok, warn, bad or idle
	Note    string // what the class means, in words; empty for ok
	Picture template.HTML
}

// gaugesOf shows a pool's numbers against their limits.
func gaugesOf(s control.PoolStatus, f PoolFacts) []gauge {
	age, depth := f.MaxAge.Seconds(), float64(f.MaxDepth)
	all := []gauge{
		newGauge("p95", "Turnaround p95", s.P95TurnaroundS, "s", s.SLOS, "promise"),
		newGauge("age", "Oldest waiting", &s.QueueOldestAgeS, "s", age, "refuses above"),
		newGauge("depth", "Waiting", floatPtr(s.QueueDepth), "", depth, "refuses above"),
		newGauge("use", "Envelope use", s.EnvelopeUse, "ratio", 1, "full at"),
		newGauge("flight", "In flight", floatPtr(s.InFlight), "", 0, ""),
		budgetGauge(f),
	}
	all[4].Limit = fmt.Sprintf("of %d workers", s.Workers)
	all[4].Picture = gaugeSVG(float64(s.InFlight), float64(s.Workers), float64(s.Workers), "plain")
	for i := range all {
		all[i].ID = s.Name + "-" + all[i].ID
	}
	return all
}

func floatPtr(n int) *float64 {
	f := float64(n)
	return &f
}

// newGauge draws a value up to 1.25 times its limit; 0 is no limit.
func newGauge(id, name string, v *float64, unit string, limit float64, what string) gauge {
	b := gauge{ID: id, Name: name, Value: formatValue(v, unit), Class: "idle"}
	if v == nil {
		b.Note = "not known: nothing was served yet, or not lately"
	}
	if limit <= 0 {
		return b
	}
	b.Limit = what + " " + formatValue(limit, unit)
	if v == nil {
		b.Picture = gaugeSVG(0, limit, limit*1.25, "idle")
		return b
	}
	switch share := *v / limit; {
	case share >= 1:
		b.Class, b.Note = "bad", "at or over the limit"
	case share >= 0.75:
		b.Class, b.Note = "warn", "near the limit"
	default:
		b.Class = "ok"
	}
	b.Picture = gaugeSVG(*v, limit, max(limit*1.25, *v), b.Class)
	return b
}

// budgetGauge shows how much of the error budget is left.
func budgetGauge(f PoolFacts) gauge {
	b := gauge{ID: "budget", Name: "Error budget left", Value: dash, Class: "idle"}
	if f.Window > 0 {
		b.Limit = fmt.Sprintf("of %s, objective %s", formatDays(f.Window.Hours()), format.Text.Percent(f.Objective))
	}
	allowed := float64(f.Good+f.Bad) * (1 - f.Objective)
	switch {
	case !f.Counted:
		b.Note = "cannot be read just now"
		return b
	case f.Good+f.Bad == 0:
		b.Value, b.Note = "100 %", "no task has counted yet"
		b.Picture = gaugeSVG(1, 1, 1, "plain")
		return b
	case allowed <= 0:
		return b
	}
	left := 1 - float64(f.Bad)/allowed
	b.Value = format.Text.Percent(left)
	switch {
	case left <= 0:
		b.Class, b.Note = "bad", "used up"
	case left < 0.25:
		b.Class, b.Note = "warn", "nearly used up"
	default:
		b.Class = "ok"
	}
	b.Picture = gaugeSVG(max(left, 0), 1, 1, b.Class)
	return b
}

func formatDays(hours float64) string {
	if hours < 48 {
		return strconv.FormatFloat(hours, 'f', -1, 64) + " h"
	}
	return strconv.FormatFloat(math.Round(hours/24), 'f', 0, 64) + " d"
}

// gaugeSVG draws a value on a scale from 0 to most, with a tick at the limit. It is
// for the eye only: the number stands beside it.
func gaugeSVG(v, limit, most float64, class string) template.HTML {
	if most <= 0 {
		return ""
	}
	const width = 200
	at := func(v float64) string { return strconv.FormatFloat(min(max(v/most, 0), 1)*width, 'f', 1, 64) }
	tick := ""
	if limit < most {
		tick = `<path class="tick" d="M` + at(limit) + ` 0v8"/>`
	}
	// Numbers and constants only.
	return template.HTML(`<svg class="bar ` + class + `" viewBox="0 0 200 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">` +
		`<rect class="rail" width="200" height="8" rx="2"/><rect class="fill" width="` + at(v) + `" height="8" rx="2"/>` + tick + `</svg>`)
}
