package sqlite

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"headgate/alerts"
	"headgate/engine"
)

// noon is when the tests' first trouble begins.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 7_000_000, time.UTC)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// fullIncident returns an open incident in which every other field is set.
func fullIncident(id string) engine.Incident {
	return engine.Incident{
		ID: id, Key: engine.Key{Rule: "queue_age", Pool: "default"}, Level: engine.LevelPage, Peak: engine.LevelPage,
		Opened: noon, Changed: noon.Add(time.Minute), Value: 31.5, Threshold: 25, Unit: "s",
		Summary: `the queue is "old" <&>`, Impact: "they wait", Runbook: "queue_age", Action: "rollback",
		Seq: 1, ReopenCount: 2, Flapping: true, AckedBy: "anna", AckUntil: noon.Add(time.Hour), Notified: true, PendingUnmute: true,
	}
}

func ended(i engine.Incident, at time.Time) engine.Incident {
	i.Ended, i.Resolution, i.PendingUnmute = at, engine.Recovered, false
	return i
}

// fullEvent returns an event in which every field is set.
func fullEvent(incident string, seq int) engine.Event {
	return engine.Event{
		ID: newID(), Incident: incident, Seq: seq, Kind: engine.EventAckExpired, At: noon.Add(time.Duration(seq) * time.Second),
		Level: engine.LevelWarn, Value: -0.25, By: "bert", Muted: true, Digested: true, Count: 9,
	}
}

// fullState returns a state in which every field is set.
func fullState(rule, incident string) engine.State {
	return engine.State{
		Key: engine.Key{Rule: rule, Pool: "default"}, Phase: engine.Recovering, Level: engine.LevelPage, Incident: incident,
		WarnFor: 1, PageFor: time.Second + 1, ClearFor: math.MaxInt64, BelowPageFor: 4, IdleFor: 5, MissingFor: 6,
		LastResolved: noon, FlapTimes: []time.Time{noon, noon.Add(time.Millisecond)}, LastNotified: noon.Add(time.Second), LastDigest: noon.Add(time.Minute),
	}
}

func fullSilence(rule string) engine.Silence {
	return engine.Silence{
		ID: newID(), Rule: rule, Pool: "default", From: noon, Until: noon.Add(time.Hour), By: "anna", Reason: "we know; 'really'",
	}
}

// newIncidentBatch is a batch of a new incident, with one event.
func newIncidentBatch(id string) engine.Batch {
	return engine.Batch{
		States: []engine.State{fullState("queue_age", id)}, Incidents: []engine.Incident{fullIncident(id)},
		Events: []engine.Event{fullEvent(id, 1)},
	}
}

// planPost plans a post for the first event that an incident has anything to be
// sent about, and edits from then on.
func planPost(b engine.Batch, k alerts.TxView) (ds []alerts.Delivery) {
	posted := map[string]bool{}
	for _, e := range b.Events {
		kind := alerts.Edit
		if !posted[e.Incident] && len(k.Posted(e.Incident)) == 0 {
			kind, posted[e.Incident] = alerts.Post, true
		}
		ds = append(ds, alerts.Delivery{
			ID: newID(), Incident: e.Incident, Seq: e.Seq, Kind: kind, Destination: alerts.ToPage, Created: e.At, State: alerts.Queued,
			Notification: alerts.Notification{Event: e, Mode: "enforce"},
		})
	}
	return ds
}

func saveBatch(t testing.TB, s *Store, b engine.Batch, plan alerts.PlanFunc) {
	t.Helper()
	if err := s.SaveBatch(t.Context(), b, plan); err != nil {
		t.Fatal(err)
	}
}

func saveOutbox(t testing.TB, s *Store, c alerts.Changes) {
	t.Helper()
	if err := s.Outbox().Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t testing.TB, s *Store) engine.SavedState {
	t.Helper()
	saved, err := s.EngineJournal(nil).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func mustLoadIncident(t testing.TB, s *Store, id string) IncidentHistory {
	t.Helper()
	st, err := s.IncidentHistory(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// historyKeys names the deliveries of a story.
func historyKeys(st IncidentHistory) (out []string) {
	for _, d := range st.Deliveries {
		out = append(out, fmt.Sprintf("%d %s %s %s", d.Seq, d.Kind, d.Destination, d.State))
	}
	return out
}

// countRows counts the rows of all tables that are about incidents.
func countRows(t testing.TB, s *Store) (n int) {
	t.Helper()
	if err := s.reader.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM incidents) + (SELECT count(*) FROM incident_events)
		+ (SELECT count(*) FROM rule_states) + (SELECT count(*) FROM silences) + (SELECT count(*) FROM deliveries)
		+ (SELECT count(*) FROM delivery_roots) + (SELECT count(*) FROM slo_hours)`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
