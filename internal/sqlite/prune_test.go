package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"headgate/alerts"
	"headgate/engine"
)

// TestPrune: what ended before the time goes with all that belongs to it; nothing
// else does.
func TestPrune(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	day := func(n int) time.Time { return noon.AddDate(0, 0, n) }
	due := ended(fullIncident("due"), day(1))
	due.PendingUnmute = true
	b := engine.Batch{
		Incidents: []engine.Incident{
			ended(fullIncident("old"), day(1)), ended(fullIncident("edge"), day(3)), ended(fullIncident("named"), day(1)),
			ended(fullIncident("unsent"), day(1)), fullIncident("open"), due,
		},
		States:   []engine.State{fullState("queue_age", "named")},
		Silences: []engine.Silence{fullSilence("stands"), fullSilence("lifted"), fullSilence("lifted later")},
	}
	for n := range b.Silences {
		b.Silences[n].EndHandled = n > 0
	}
	b.Silences[2].Until = day(4)
	for _, i := range b.Incidents {
		b.Events = append(b.Events, fullEvent(i.ID, 1))
	}
	saveBatch(t, s, b, nil)
	var c alerts.Changes
	for _, i := range b.Incidents {
		d := newPost(i.ID, 1, alerts.ToPage, alerts.Sent)
		if i.ID == "unsent" {
			d.State = alerts.Uncertain
		}
		c.Add = append(c.Add, d)
		c.Threads = append(c.Threads, alerts.Thread{Incident: i.ID, Destination: alerts.ToPage, Ref: alerts.Ref{TS: "1"}})
	}
	young := newPost("young orphan", 1, alerts.ToPage, alerts.Sent)
	young.Created = day(3)
	c.Add = append(c.Add, newPost("old orphan", 1, alerts.ToPage, alerts.Sent), young, newPost("unsent orphan", 1, alerts.ToPage, alerts.Queued))
	saveOutbox(t, s, c)
	mustSaveSLO(t, s, engine.SLOCount{Pool: "p", Hour: day(1), Good: 1, Bad: 1}, engine.SLOCount{Pool: "p", Hour: day(3), Good: 2, Bad: 2})

	before := countRows(t, s)
	if n, err := s.Prune(t.Context(), day(3)); err != nil || n != 1 {
		t.Errorf("%d incidents, %v, want one", n, err)
	}
	// incident, event, delivery and root of old; the old orphan; a silence; an hour
	if after := countRows(t, s); before-after != 7 {
		t.Errorf("%d rows are gone, want 7", before-after)
	}
	if _, err := s.IncidentHistory(t.Context(), "old"); !errors.Is(err, ErrNoIncident) {
		t.Errorf("old: %v", err)
	}
	for _, i := range b.Incidents[1:] {
		st := mustLoadIncident(t, s, i.ID)
		ref, err := s.Outbox().Thread(t.Context(), i.ID, alerts.ToPage)
		if len(st.Events) != 1 || len(st.Deliveries) != 1 || ref.TS != "1" || err != nil {
			t.Errorf("%s: %d events, %d deliveries, %v, %v", i.ID, len(st.Events), len(st.Deliveries), ref, err)
		}
	}
	found, _, err := s.Silences(t.Context(), SilenceFilter{})
	var rules []string
	for _, sil := range found {
		rules = append(rules, sil.Rule)
	}
	slices.Sort(rules)
	if want := []string{"lifted later", "stands"}; err != nil || !slices.Equal(rules, want) {
		t.Errorf("silences %v, %v, want %v", rules, err, want)
	}
	wantSLO(t, s, "p", time.Time{}, 2, 2)
	if n, err := s.Prune(t.Context(), day(3)); err != nil || n != 0 {
		t.Errorf("again: %d incidents, %v", n, err)
	}
}

// TestPruneMany: more than one step's worth goes in one call, and others write in
// between.
func TestPruneMany(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	var b engine.Batch
	for i := range 2*pruneBatch + 7 {
		b.Incidents = append(b.Incidents, ended(fullIncident(fmt.Sprintf("i-%d", i)), noon))
		b.Events = append(b.Events, fullEvent(fmt.Sprintf("i-%d", i), 1))
	}
	saveBatch(t, s, b, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Prune(ctx, noon.Add(1)); !errors.Is(err, context.Canceled) || n != 0 {
		t.Errorf("with an ended context: %d, %v", n, err)
	}
	if n, err := s.Prune(t.Context(), noon.Add(time.Second)); err != nil || n != len(b.Incidents) || countRows(t, s) != 0 {
		t.Errorf("%d incidents, %v, %d rows are left", n, err, countRows(t, s))
	}
}

// TestPruneOdd: what cannot be read can be deleted, and what cannot be deleted
// does not keep it from ending.
func TestPruneOdd(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	for _, id := range []string{"x'00ff'", "CAST(x'6100ff' AS TEXT)", "''", "CAST(x'ff' AS TEXT)"} {
		if _, err := s.writer.ExecContext(t.Context(), "INSERT INTO incidents VALUES ("+id+`, 'r', '', 1, 1, 0, 'x', 'w')`); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Prune(withDeadline(t, 20*time.Second), noon); err != nil || n < 3 {
		t.Errorf("%d incidents, %v", n, err)
	}
}
