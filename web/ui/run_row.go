package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// drillsPath is where the pages of drills begin.
const drillsPath = "/drills"

// runRow is one run of a drill, as lists show it.
type runRow struct {
	drill.Run
	Label    verdictLabel
	Tightest *drill.Hypothesis // nil: there is none
	Why      string            // it did not pass, or what it wanted of a run that was not begun
	Trigger  string            // as people say it

	Due  time.Time // zero: by hand, or it did not begin
	Late time.Duration
}

func runRowOf(r drill.Run) runRow {
	if r.Verdict == drill.Passed {
		r.Reason = "" // it only says so once more
	}
	r.Name, r.Actor = format.Truncate(r.Name, shownName), format.Truncate(r.Actor, shownName)
	row := runRow{Run: r, Label: runLabelOf(r), Trigger: triggerName(string(r.Trigger)), Why: format.Truncate(r.Reason, shownReason)}
	if h, ok := r.Tightest(); ok {
		row.Tightest = &h
	}
	if row.Actor == string(r.Trigger) || row.Actor == row.Trigger {
		row.Actor = ""
	}
	if !r.Started.IsZero() && !r.Scheduled.IsZero() {
		row.Late, row.Due = max(r.Started.Sub(r.Scheduled), 0), r.Scheduled
	}
	if r.Count > 1 && !strings.Contains(row.Why, "due times") {
		row.Why = strings.TrimSpace(fmt.Sprintf("%s (%d due times)", row.Why, r.Count))
	}
	return row
}

// runLabelOf says how a run ended, or how far it is.
func runLabelOf(r drill.Run) verdictLabel {
	if r.Verdict == "" {
		return verdictLabel{"run", "▶", "Running"}
	}
	return verdictLabelOf(string(r.Verdict))
}

func triggerName(trigger string) string {
	for _, c := range triggerChoices() {
		if c.Value == trigger {
			return c.Name
		}
	}
	return humanize(trigger)
}

// formatShortSeconds shows a number of seconds of which a part counts.
func formatShortSeconds(v any) string {
	s, ok := toFloat(v)
	switch {
	case !ok || s >= 1:
		return formatSeconds(v)
	case s < 0.001:
		return "under 1 ms"
	}
	return formatNumber(math.Ceil(s*1000)) + " ms"
}

// clauseSentence makes a reason a sentence.
func clauseSentence(s string) string { return format.Sentence(strings.TrimRight(s, ".") + ".") }

// measureName is the name of a measure for people.
func measureName(name drill.Measure) string {
	switch name {
	case "p95_turnaround":
		return "p95"
	case "bad_retry_after":
		return "bad Retry-After"
	default:
		return humanize(string(name))
	}
}

// formatMeasure shows a value of a hypothesis, which may be absent.
func formatMeasure(v any, unit string) string {
	f, ok := toFloat(v)
	switch {
	case !ok:
		return "not known"
	case unit == "s" && f >= 100:
		return strings.TrimSuffix(formatElapsed(time.Duration(f*float64(time.Second))), " 0 s")
	case unit == "s" || unit == "ratio":
		return formatValue(f, unit)
	default:
		return formatNumber(f)
	}
}

// measured shows the value of a hypothesis.
func measured(h drill.Hypothesis) string {
	if !h.Measured {
		return formatMeasure(nil, h.Unit)
	}
	return formatMeasure(h.Value, h.Unit)
}

// limitText is what a value is held to.
func limitText(h drill.Hypothesis) string {
	limit := formatMeasure(h.Limit, h.Unit)
	switch h.Compare {
	case ">=":
		return "at least " + limit
	case "==":
		return "exactly " + limit
	default:
		return "at most " + limit
	}
}

// ofLimitText is the same after a value, short.
func ofLimitText(h drill.Hypothesis) string {
	limit := formatMeasure(h.Limit, h.Unit)
	if h.Compare == ">=" {
		return "of at least " + limit
	}
	return "of " + limit
}

// marginText says how far a value stayed from its limit.
func marginText(h drill.Hypothesis) string {
	m := h.Margin
	far := format.Text.Percent(math.Round(math.Abs(m)*100) / 100)
	if h.Limit == 0 {
		far = formatMeasure(math.Abs(m), h.Unit)
	}
	switch {
	case !h.Measured:
		return "not known"
	case m > 2 && h.Limit != 0:
		return "far away"
	case m > 0:
		return far + " to spare"
	case m < 0:
		return "missed by " + far
	case h.Passed:
		return "just so"
	default:
		return "not held"
	}
}
