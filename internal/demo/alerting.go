package demo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Alerting sums up what was told about the gated side. Times are seconds of
// scenario time since the burst began, or the load when there was none; below 0
// they lie before it.
type Alerting struct {
	Opened   int      `json:"incidents_opened"`
	Resolved int      `json:"incidents_resolved"`
	Rules    []string `json:"rules"`      // of the incidents, in the order in which they opened
	Open     []string `json:"still_open"` // rules of those that were not over
	Traffic
	Warn   *float64 `json:"warn_after_burst_began_s"`     // null: there was none
	Page   *float64 `json:"page_after_burst_began_s"`     // null: there was none
	Over   *float64 `json:"resolved_after_burst_began_s"` // null: not all are over, or there was none
	Untold int      `json:"incidents_not_all_told"`       // with messages that had not been sent when the demo ended
	Orders []string `json:"mode_changes"`                 // what people did to the gate: ACTION by WHOM
}

// alerting sums up. An error says what could not be asked.
func (d *Demo) alerting() (*Alerting, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	all, err := d.watching.desk.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("sum up the incidents: %w", err)
	}
	changes, err := d.watching.desk.changes(ctx)
	if err != nil {
		return nil, fmt.Errorf("sum up the changes of mode: %w", err)
	}
	a := sumUpIncidents(all, func(at time.Time) float64 {
		// The wall clocks of both: what goes into a record has no other.
		since := time.Duration(float64(at.Sub(d.gated.tracker.start.Round(0))) * d.plan.Speed)
		return (since - d.plan.burstBegins()).Seconds()
	})
	a.Traffic, _ = d.watching.channel.traffic()
	for _, c := range changes {
		a.Orders = append(a.Orders, c.Action+" by "+who(c.Actor))
	}
	return a, nil
}

// burstBegins is 0 when there is none.
func (p Plan) burstBegins() time.Duration {
	if p.Burst == nil {
		return 0
	}
	return p.Burst.From
}

func sumUpIncidents(all []incident, since func(time.Time) float64) *Alerting {
	a := &Alerting{Opened: len(all), Rules: []string{}, Open: []string{}, Orders: []string{}}
	for _, i := range all {
		a.Rules = append(a.Rules, i.Rule)
		if i.pending() {
			a.Untold++
		}
		for _, e := range i.Events {
			a.reached(e, since(e.At))
		}
		if i.Ended == nil {
			a.Open = append(a.Open, i.Rule)
			continue
		}
		a.Resolved++
		later(&a.Over, since(*i.Ended))
	}
	if len(a.Open) > 0 {
		a.Over = nil
	}
	return a
}

// reached notes when a level was first reached. Who pages has warned.
func (a *Alerting) reached(e event, at float64) {
	if e.Level == "warn" || e.Level == "page" {
		earlier(&a.Warn, at)
	}
	if e.Level == "page" {
		earlier(&a.Page, at)
	}
}

func earlier(t **float64, at float64) {
	if *t == nil || at < **t {
		*t = &at
	}
}

func later(t **float64, at float64) {
	if *t == nil || at > **t {
		*t = &at
	}
}

// notes says it in sentences.
func (a *Alerting) notes(burst bool) []string {
	var out []string
	if len(a.Orders) > 0 {
		out = append(out, fmt.Sprintf("The gate was not left alone: %s. While it was out, its side refused nothing, so the two sides differ only by the rest of the time.",
			strings.Join(a.Orders, ", ")))
	}
	if a.Opened == 0 {
		return append(out, "No rule fired: nothing was wrong for long enough to tell anybody, and Slack stayed silent.")
	}
	out = append(out, fmt.Sprintf("Slack followed %s (%s): %s, %s in threads, %s, %s.",
		count(a.Opened, "incident", "incidents"), strings.Join(a.Rules, ", "), count(a.Messages, "message", "messages"),
		count(a.Replies, "reply", "replies"), count(a.Edits, "edit", "edits"), count(a.Pings, "ping", "pings")))
	from := "the load"
	if burst {
		from = "the burst"
	}
	var when []string
	for _, t := range []struct {
		what string
		at   *float64
	}{{"the first warning", a.Warn}, {"the first page", a.Page}, {"the end of the last incident", a.Over}} {
		if t.at != nil {
			when = append(when, t.what+" "+beside(*t.at))
		}
	}
	if len(when) > 0 {
		out = append(out, fmt.Sprintf("Counted from when %s began: %s.", from, strings.Join(when, ", ")))
	}
	if len(a.Open) > 0 {
		out = append(out, "Not over when the demo ended: "+strings.Join(a.Open, ", ")+".")
	}
	if a.Untold > 0 {
		out = append(out, fmt.Sprintf("Of %s not everything had been told yet.", count(a.Untold, "incident", "incidents")))
	}
	return out
}

func beside(seconds float64) string {
	if seconds < 0 {
		return fmt.Sprintf("%.0f s before", -seconds)
	}
	return fmt.Sprintf("after %.0f s", seconds)
}
