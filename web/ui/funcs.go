package ui

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"headgate/internal/format"
)

// templateFuncs are what templates use to say things.
var templateFuncs = template.FuncMap{
	"when": fullTime, "clock": clockTime, "stamp": timestampHTML, "secs": formatSeconds, "span": format.Text.Duration, "num": formatValue, "modeOf": func(v any) modeLabel { return modeLabelOf(stringOf(v)) },
	"initial": upperFirst, "verb": actionNameOrEmpty, "level": levelLabelOf, "short": shortID, "signed": signOfClass, "spell": func(v any) string { return humanize(stringOf(v)) },
	"sentence": func(s string) string { return strings.TrimRight(s, ".") + "." },
	"measure":  measureName, "brief": formatShortSeconds, "clause": clauseSentence, "amount": formatMeasure, "ofLimit": ofLimitText, "limit": limitText, "margin": marginText,
	"poolcard": func(p poolView, v viewer, w windowView) poolCard { return poolCard{p, v.SignedIn, w} },
}

// poolCard is a pool, as one part of a page.
type poolCard struct {
	Pool     poolView
	SignedIn bool
	Window   windowView
}

// dash stands for what is not known.
const dash = "–"

// fullTime shows a time: a script puts the viewer's zone in its place, with UTC beside.
func fullTime(t time.Time) template.HTML { return timeTag(t, "2 Jan 2006 15:04:05 UTC", "full") }

// clockTime shows the time of day.
func clockTime(t time.Time) template.HTML { return timeTag(t, "15:04:05 UTC", "clock") }

func timeTag(t time.Time, layout, kind string) template.HTML {
	if t.IsZero() {
		return dash
	}
	t = t.UTC()
	// Nothing but digits, letters of months and constants is put together here.
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `" data-show="` + kind + `">` + t.Format(layout) + `</time>`)
}

// stringOf returns a text that may be absent.
func stringOf(v any) string {
	switch s := v.(type) {
	case string:
		return s
	case *string:
		if s != nil {
			return *s
		}
		return ""
	}
	return fmt.Sprint(v) // of an enumeration
}

// timestampHTML shows a time as the API writes it. What is none is shown as text.
func timestampHTML(s any) any {
	if t, ok := s.(time.Time); ok {
		return fullTime(t)
	}
	text := stringOf(s)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if text == "" {
			return dash
		}
		return text
	}
	return fullTime(t)
}

// formatSeconds shows a number of seconds, which may be absent.
func formatSeconds(v any) string {
	s, ok := toFloat(v)
	if !ok {
		return dash
	}
	return format.Text.Seconds(s)
}

// formatValue shows a value with its unit.
func formatValue(v any, unit string) string {
	f, ok := toFloat(v)
	switch {
	case !ok:
		return dash
	case unit == "s":
		return formatSeconds(f)
	case unit == "ratio":
		return format.Text.Percent(f)
	default:
		return strings.TrimSpace(formatNumber(f) + " " + unit)
	}
}

func formatNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return format.Count(int64(f))
	}
	return format.Number(f)
}

func toFloat(v any) (float64, bool) {
	var f float64
	switch x := v.(type) {
	case float64:
		f = x
	case *float64:
		if x == nil {
			return 0, false
		}
		f = *x
	case int:
		f = float64(x)
	case time.Duration:
		f = x.Seconds()
	default:
		return 0, false
	}
	return f, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// modeLabel are how a mode is shown: as a sign, a word and what it means.
type modeLabel struct{ Mode, Sign, Text, Meaning string }

func modeLabelOf(mode string) modeLabel {
	switch mode {
	case "enforce":
		return modeLabel{mode, "●", "Enforce", "Work is refused when it could not be served in time."}
	case "observe":
		return modeLabel{mode, "◐", "Observe", "What would be refused is counted, and admitted."}
	case "passthrough":
		return modeLabel{mode, "○", "Pass-through", "Admission control is disabled: everything is admitted. Queue and workers stay."}
	default:
		return modeLabel{"other", "◌", mode, ""}
	}
}

// levelLabel are how the level of an incident is shown.
type levelLabel struct{ Level, Sign, Text string }

func levelLabelOf(of any, open bool) levelLabel {
	level := stringOf(of)
	switch {
	case !open:
		return levelLabel{"over", "✓", "Over"}
	case level == "page":
		return levelLabel{level, "▲", "Page"}
	case level == "warn":
		return levelLabel{level, "△", "Warning"}
	default:
		return levelLabel{"recovering", "↓", "Recovering"}
	}
}

// signOfClass is the sign of a verdict.
func signOfClass(class string) string {
	switch class {
	case "ok":
		return "✓"
	case "warn":
		return "△"
	case "bad":
		return "▲"
	default:
		return "·"
	}
}

// shortID is the beginning of an ID, enough to tell it from others.
func shortID(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

// humanize makes a word of the API one for people: queue_age becomes queue age.
func humanize(word string) string { return strings.ReplaceAll(word, "_", " ") }
