package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// drillsPath is where the pages of drills begin.
const drillsPath = "/drills"

// runRow is one run of a drill, as lists show it.
type runRow struct {
	api.DrillRun
	Look    verdictWords
	Why     string // it did not pass, or what it wanted of a run that was not begun
	Trigger string // as people say it

	Due  time.Time // zero: by hand, or it did not begin
	Late time.Duration
}

func runRowOf(r api.DrillRun) runRow {
	if r.Verdict != nil && *r.Verdict == string(drill.Passed) {
		r.Reason = "" // it only says so once more
	}
	r.Name, r.Actor = cutTo(r.Name, shownWord), cutTo(r.Actor, shownWord)
	row := runRow{DrillRun: r, Look: runWord(r), Trigger: triggerWord(r.Trigger), Why: cutTo(r.Reason, shownReason)}
	if row.Actor == r.Trigger || row.Actor == row.Trigger {
		row.Actor = ""
	}
	if r.StartedAt != nil && r.ScheduledAt != nil {
		row.Late = max(parsed(*r.StartedAt).Sub(parsed(*r.ScheduledAt)), 0)
		row.Due = parsed(*r.ScheduledAt)
	}
	if r.Missed > 1 && !strings.Contains(row.Why, "due times") {
		row.Why = strings.TrimSpace(fmt.Sprintf("%s (%d due times)", row.Why, r.Missed))
	}
	return row
}

// runWord says how a run ended, or how far it is.
func runWord(r api.DrillRun) verdictWords {
	if r.Verdict == nil {
		return verdictWords{"run", "▶", "Running"}
	}
	return verdictWord(*r.Verdict)
}

func triggerWord(trigger string) string {
	for _, c := range triggerChoices() {
		if c.Value == trigger {
			return c.Name
		}
	}
	return spell(trigger)
}

// brief shows a number of seconds of which a part counts.
func brief(v any) string {
	s, ok := float(v)
	switch {
	case !ok || s >= 1:
		return secs(v)
	case s < 0.001:
		return "under 1 ms"
	}
	return plainNumber(math.Ceil(s*1000)) + " ms"
}

// clause makes a reason a sentence. The name of a measure or a setting stays as it
// is.
func clause(s string) string {
	s = strings.TrimRight(s, ".") + "."
	if word, _, _ := strings.Cut(s, " "); strings.ContainsAny(word, "_:") {
		return s
	}
	return initial(s)
}

// measureWord is the name of a measure for people.
func measureWord(name string) string {
	switch name {
	case "p95_turnaround":
		return "p95"
	case "bad_retry_after":
		return "bad Retry-After"
	default:
		return spell(name)
	}
}

// amount shows a value of a hypothesis, which may be absent.
func amount(v any, unit string) string {
	f, ok := float(v)
	switch {
	case !ok:
		return "not known"
	case unit == "s" && f >= 100:
		return strings.TrimSuffix(elapsed(time.Duration(f*float64(time.Second))), " 0 s")
	case unit == "s" || unit == "ratio":
		return number(f, unit)
	default:
		return plainNumber(f)
	}
}

// limitWord is what a value is held to.
func limitWord(h api.DrillHypothesis) string {
	limit := amount(h.Limit, h.Unit)
	switch h.Compare {
	case ">=":
		return "at least " + limit
	case "==":
		return "exactly " + limit
	default:
		return "at most " + limit
	}
}

// ofWord is the same after a value, short.
func ofWord(h api.DrillHypothesis) string {
	limit := amount(h.Limit, h.Unit)
	if h.Compare == ">=" {
		return "of at least " + limit
	}
	return "of " + limit
}

// marginWord says how far a value stayed from its limit.
func marginWord(h api.DrillHypothesis) string {
	m, ok := float(h.Margin)
	far := percent(math.Round(math.Abs(m)*100) / 100)
	if h.Limit == 0 {
		far = amount(math.Abs(m), h.Unit)
	}
	switch {
	case !ok:
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
