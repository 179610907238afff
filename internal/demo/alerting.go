package demo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// AlertSummary sums up what was told about the gated side. Times are seconds of
// scenario time since the burst began, or the load when there was none; below 0
// they lie before it.
type AlertSummary struct {
	Opened    int      `json:"incidents_opened"`
	Resolved  int      `json:"incidents_resolved"`
	Rules     []string `json:"rules"`      // of the incidents, in the order in which they opened
	StillOpen []string `json:"still_open"` // rules of those that were not over
	MessageCounts
	FirstWarn    *float64 `json:"warn_after_burst_began_s"`     // null: there was none
	FirstPage    *float64 `json:"page_after_burst_began_s"`     // null: there was none
	LastResolved *float64 `json:"resolved_after_burst_began_s"` // null: not all are over, or there was none
	Undelivered  int      `json:"incidents_not_all_told"`       // with messages that had not been sent when the demo ended
	ModeChanges  []string `json:"mode_changes"`                 // what people did to the gate: ACTION by WHOM
}

// alertSummary sums up. An error says what could not be asked.
func (d *Demo) alertSummary() (*AlertSummary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	all, err := d.monitor.admin.incidentDetails(ctx)
	if err != nil {
		return nil, fmt.Errorf("sum up the incidents: %w", err)
	}
	changes, err := d.monitor.admin.modeChanges(ctx)
	if err != nil {
		return nil, fmt.Errorf("sum up the changes of mode: %w", err)
	}
	a := summarizeIncidents(all, func(at time.Time) float64 {
		// The wall clocks of both: what goes into a record has no other.
		since := time.Duration(float64(at.Sub(d.gated.tracker.start.Round(0))) * d.plan.Speed)
		return (since - d.plan.burstStart()).Seconds()
	})
	a.MessageCounts, _ = d.monitor.channel.messageCounts()
	for _, c := range changes {
		a.ModeChanges = append(a.ModeChanges, c.Action+" by "+actorName(c.Actor))
	}
	return a, nil
}

// burstStart is 0 when there is none.
func (p Plan) burstStart() time.Duration {
	if p.Burst == nil {
		return 0
	}
	return p.Burst.From
}

func summarizeIncidents(all []incident, since func(time.Time) float64) *AlertSummary {
	a := &AlertSummary{Opened: len(all), Rules: []string{}, StillOpen: []string{}, ModeChanges: []string{}}
	for _, i := range all {
		a.Rules = append(a.Rules, i.Rule)
		if i.pending() {
			a.Undelivered++
		}
		for _, e := range i.Events {
			a.recordLevel(e, since(e.At))
		}
		if i.Ended == nil {
			a.StillOpen = append(a.StillOpen, i.Rule)
			continue
		}
		a.Resolved++
		setMax(&a.LastResolved, since(*i.Ended))
	}
	if len(a.StillOpen) > 0 {
		a.LastResolved = nil
	}
	return a
}

// recordLevel notes when a level was first reached. Who pages has warned.
func (a *AlertSummary) recordLevel(e event, at float64) {
	if e.Level == "warn" || e.Level == "page" {
		setMin(&a.FirstWarn, at)
	}
	if e.Level == "page" {
		setMin(&a.FirstPage, at)
	}
}

func setMin(t **float64, at float64) {
	if *t == nil || at < **t {
		*t = &at
	}
}

func setMax(t **float64, at float64) {
	if *t == nil || at > **t {
		*t = &at
	}
}

// notes says it in sentences.
func (a *AlertSummary) notes(burst bool) []string {
	var out []string
	if len(a.ModeChanges) > 0 {
		out = append(out, fmt.Sprintf("The gate was not left alone: %s. While it was out, its side refused nothing, so the two sides differ only by the rest of the time.",
			strings.Join(a.ModeChanges, ", ")))
	}
	if a.Opened == 0 {
		return append(out, "No rule fired: nothing was wrong for long enough to tell anybody, and Slack stayed silent.")
	}
	out = append(out, fmt.Sprintf("Slack followed %s (%s): %s, %s in threads, %s, %s.",
		countText(a.Opened, "incident", "incidents"), strings.Join(a.Rules, ", "), countText(a.Messages, "message", "messages"),
		countText(a.Replies, "reply", "replies"), countText(a.Edits, "edit", "edits"), countText(a.Pings, "ping", "pings")))
	from := "the load"
	if burst {
		from = "the burst"
	}
	var when []string
	for _, t := range []struct {
		what string
		at   *float64
	}{{"the first warning", a.FirstWarn}, {"the first page", a.FirstPage}, {"the end of the last incident", a.LastResolved}} {
		if t.at != nil {
			when = append(when, t.what+" "+relativeSeconds(*t.at))
		}
	}
	if len(when) > 0 {
		out = append(out, fmt.Sprintf("Counted from when %s began: %s.", from, strings.Join(when, ", ")))
	}
	if len(a.StillOpen) > 0 {
		out = append(out, "Not over when the demo ended: "+strings.Join(a.StillOpen, ", ")+".")
	}
	if a.Undelivered > 0 {
		out = append(out, fmt.Sprintf("Of %s not everything had been told yet.", countText(a.Undelivered, "incident", "incidents")))
	}
	return out
}

func relativeSeconds(seconds float64) string {
	if seconds < 0 {
		return fmt.Sprintf("%.0f s before", -seconds)
	}
	return fmt.Sprintf("after %.0f s", seconds)
}
