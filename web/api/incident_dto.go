package api

import (
	"math"
	"slices"
	"time"

	"headgate/engine"
)

// Incident is one trouble, from first firing to its end.
type Incident struct {
	ID    string `json:"id"`   // UUIDv7
	Rule  string `json:"rule"` // that it is about
	Pool  string `json:"pool"` // empty: the whole process
	Level string `json:"level"`
	Peak  string `json:"peak"` // the highest level so far

	OpenedAt  string  `json:"opened_at"`
	ChangedAt string  `json:"changed_at"` // when it came to this level, or was reopened
	EndedAt   *string `json:"ended_at"`   // null: it is open
	EndReason *string `json:"ending"`     // recovered, no_traffic or rule_deleted; null while open

	Value     *float64 `json:"value"` // the latest known one
	Threshold *float64 `json:"threshold"`
	Unit      string   `json:"unit"`
	Summary   string   `json:"summary"` // what is wrong
	Impact    string   `json:"feel"`    // what users feel
	Runbook   string   `json:"runbook"`
	Action    string   `json:"action"` // what the engine itself may do: empty or rollback

	Reopened int     `json:"reopened"` // times that it came back
	Flapping bool    `json:"flapping"`
	AckedBy  *string `json:"acked_by"`
	AckUntil *string `json:"ack_until"`
	Silenced bool    `json:"silenced"` // what is sent about it is muted now
}

// IncidentList is the reply to GET /api/v1/incidents.
type IncidentList struct {
	Items []Incident `json:"items"`
	Next  string     `json:"next"` // for ?after=; empty if this is the last page
}

// IncidentReport is the reply to GET /api/v1/incidents/{id}.
type IncidentReport struct {
	Incident
	Recorded   bool       `json:"recorded"` // false: events and deliveries could not be read, or not be written yet
	Truncated  bool       `json:"cut"`      // there are more; the newest are here
	Events     []Event    `json:"events"`
	Deliveries []Delivery `json:"deliveries"`
}

// Event is one step in the life of an incident.
type Event struct {
	Seq        int      `json:"seq"`
	At         string   `json:"at"`
	Kind       string   `json:"kind"`
	Level      string   `json:"level"`
	Value      *float64 `json:"value"`
	By         string   `json:"by"`       // who acknowledged, or lifted the silence; else empty
	Silenced   bool     `json:"muted"`    // a silence covered it: nothing was sent
	Suppressed bool     `json:"digested"` // part of a flapping: nobody was disturbed
	Count      int      `json:"count"`    // of a flapping: turns for the worse
}

// Delivery is how far one message about an incident has come.
type Delivery struct {
	ID                string  `json:"id"`
	Seq               int     `json:"seq"` // of the event that it tells of
	Kind              string  `json:"kind"`
	Destination       string  `json:"destination"`
	State             string  `json:"state"`
	Reason            string  `json:"reason"` // why the latest attempt failed; empty if none did
	Attempts          int     `json:"attempts"`
	CreatedAt         string  `json:"created_at"`
	TriedAt           *string `json:"tried_at"` // null before the first attempt
	NextAt            *string `json:"next_at"`  // null unless there is another attempt to come
	Channel           string  `json:"channel"`  // where it stands, once sent
	AmbiguousAttempts int     `json:"doubts"`   // times sent again without knowing whether it had arrived
	Text              string  `json:"text"`     // what it says, as plain text
}

// incidentOf returns an incident in the shape of the API.
func incidentOf(i engine.Incident, silences []engine.Silence, now time.Time) Incident {
	shown := Incident{
		ID: i.ID, Rule: i.Key.Rule, Pool: i.Key.Pool, Level: i.Level.String(), Peak: i.Peak.String(),
		OpenedAt: formatTime(i.Opened), ChangedAt: formatTime(i.Changed), EndedAt: timeOrNull(i.Ended),
		Value: finiteOrNull(i.Value), Threshold: finiteOrNull(i.Threshold), Unit: i.Unit,
		Summary: i.Summary, Impact: i.Impact, Runbook: i.Runbook, Action: i.Action,
		Reopened: i.ReopenCount, Flapping: i.Flapping,
		Silenced: slices.ContainsFunc(silences, func(s engine.Silence) bool { return silenceActive(s, i.Key, now) }),
	}
	if !i.Open() {
		why := string(i.Resolution)
		shown.EndReason = &why
	}
	if i.AckedBy != "" {
		shown.AckedBy, shown.AckUntil = &i.AckedBy, timeOrNull(i.AckUntil)
	}
	return shown
}

func silenceActive(s engine.Silence, key engine.Key, now time.Time) bool {
	return !s.EndHandled && s.Covers(key) && !now.Before(s.From) && now.Before(s.Until)
}

func reportOf(i Incident, d IncidentDetail) IncidentReport {
	r := IncidentReport{Incident: i, Truncated: d.Truncated, Events: []Event{}, Deliveries: []Delivery{}}
	for _, e := range keepNewest(d.Events, &r.Truncated) {
		r.Events = append(r.Events, Event{
			Seq: e.Seq, At: formatTime(e.At), Kind: string(e.Kind), Level: e.Level.String(), Value: finiteOrNull(e.Value),
			By: e.By, Silenced: e.Muted, Suppressed: e.Digested, Count: e.Count,
		})
	}
	for _, d := range keepNewest(d.Deliveries, &r.Truncated) {
		r.Deliveries = append(r.Deliveries, deliveryOf(d))
	}
	return r
}

// keepNewest cuts what is too long, and says so.
func keepNewest[T any](all []T, cut *bool) []T {
	if over := len(all) - MaxTimeline; over > 0 {
		*cut = true
		return all[over:]
	}
	return all
}

func deliveryOf(d DeliveryRecord) Delivery {
	shown := Delivery{
		ID: d.ID, Seq: d.Seq, Kind: d.Kind, Destination: d.Destination, State: d.State, Reason: d.Reason,
		Attempts: d.Attempts, CreatedAt: formatTime(d.Created), TriedAt: timeOrNull(d.Tried), Channel: d.Channel, AmbiguousAttempts: d.AmbiguousAttempts, Text: d.Text,
	}
	if d.State != "sent" && d.State != "dead" && d.State != "dropped" {
		shown.NextAt = timeOrNull(d.NotBefore)
	}
	return shown
}

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

func timeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := formatTime(t)
	return &s
}

// finiteOrNull is null for what is none.
func finiteOrNull(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
