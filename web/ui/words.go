package ui

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// words are what templates use to say things.
var words = template.FuncMap{
	"when": when, "clock": clock, "stamp": stampText, "secs": secs, "span": span, "num": number, "modeOf": func(v any) modeWords { return modeWord(textOf(v)) },
	"initial": initial, "verb": verbFor, "level": levelWord, "short": short, "signed": signOf, "spell": func(v any) string { return spell(textOf(v)) },
	"sentence": func(s string) string { return strings.TrimRight(s, ".") + "." },
	"measure":  measureWord, "brief": brief, "clause": clause, "amount": amount, "ofLimit": ofWord, "limit": limitWord, "margin": marginWord,
	"poolcard": func(p poolView, v viewer, w windowView) poolCard { return poolCard{p, v.SignedIn, w} },
}

// poolCard is a pool, as one part of a page.
type poolCard struct {
	Pool     poolView
	SignedIn bool
	Window   windowView
}

// none stands for what is not known.
const none = "–"

// when shows a time: a script puts the viewer's zone in its place, with UTC beside.
func when(t time.Time) template.HTML { return timeTag(t, "2 Jan 2006 15:04:05 UTC", "full") }

// clock shows the time of day.
func clock(t time.Time) template.HTML { return timeTag(t, "15:04:05 UTC", "clock") }

func timeTag(t time.Time, layout, kind string) template.HTML {
	if t.IsZero() {
		return none
	}
	t = t.UTC()
	// Nothing but digits, letters of months and constants is put together here.
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `" data-show="` + kind + `">` + t.Format(layout) + `</time>`)
}

// textOf returns a text that may be absent.
func textOf(v any) string {
	switch s := v.(type) {
	case string:
		return s
	case *string:
		if s != nil {
			return *s
		}
	}
	return ""
}

// stampText shows a time as the API writes it. What is none is shown as text.
func stampText(s any) any {
	text := textOf(s)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if text == "" {
			return none
		}
		return text
	}
	return when(t)
}

// secs shows a number of seconds as people say it.
func secs(v any) string {
	s, ok := float(v)
	switch {
	case !ok:
		return none
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 100:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	default:
		return span(time.Duration(s * float64(time.Second)))
	}
}

// span shows a length of time in its two largest units.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	h, m, s := int(d/time.Hour), int(d/time.Minute)%60, int(d/time.Second)%60
	switch {
	case h >= 48:
		return fmt.Sprintf("%d d %d h", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m > 0:
		return fmt.Sprintf("%d min %d s", m, s)
	default:
		return fmt.Sprintf("%d s", s)
	}
}

// number shows a value with its unit.
func number(v any, unit string) string {
	f, ok := float(v)
	switch {
	case !ok:
		return none
	case unit == "s":
		return secs(f)
	case unit == "ratio":
		return percent(f)
	default:
		return strings.TrimSpace(plainNumber(f) + " " + unit)
	}
}

func percent(f float64) string {
	p := f * 100
	if math.Abs(p) < 10 && p != math.Trunc(p) {
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

func plainNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return grouped(int64(f))
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// grouped puts a thin space between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, parts...), "\u202f")
}

func float(v any) (float64, bool) {
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
	default:
		return 0, false
	}
	return f, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// modeWords are how a mode is shown: as a sign, a word and what it means.
type modeWords struct{ Mode, Sign, Word, Means string }

func modeWord(mode string) modeWords {
	switch mode {
	case "enforce":
		return modeWords{mode, "●", "Enforce", "Work is refused when it could not be served in time."}
	case "observe":
		return modeWords{mode, "◐", "Observe", "What would be refused is counted, and let in."}
	case "passthrough":
		return modeWords{mode, "○", "Pass-through", "The gate is taken out: everything is let in. Queue and workers stay."}
	default:
		return modeWords{"other", "◌", mode, ""}
	}
}

// levelWords are how the level of an incident is shown.
type levelWords struct{ Level, Sign, Word string }

func levelWord(level string, open bool) levelWords {
	switch {
	case !open:
		return levelWords{"over", "✓", "Over"}
	case level == "page":
		return levelWords{level, "▲", "Page"}
	case level == "warn":
		return levelWords{level, "△", "Warning"}
	default:
		return levelWords{"recovering", "↓", "Recovering"}
	}
}

// signOf is the sign of a verdict.
func signOf(class string) string {
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

// short is the beginning of an ID, enough to tell it from others.
func short(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

// spell makes a word of the API one for people: queue_age becomes queue age.
func spell(word string) string { return strings.ReplaceAll(word, "_", " ") }
