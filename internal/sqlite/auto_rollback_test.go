package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
	"headgate/runbooks/control"
)

func newAutoRollback(pool string) control.RollbackState {
	at := time.Now().UTC().Truncate(time.Millisecond)
	return control.RollbackState{
		Pool: pool, Phase: control.Cooldown, Since: at, Until: at.Add(time.Hour), Rule: "false_refusal", Incident: "i-1", ChangeID: "c-1",
		Rollbacks: []time.Time{at.Add(-time.Hour), at}, HoldUntil: at.Add(4 * time.Hour), HoldActor: "anna", HoldReason: "restore to enforce",
	}
}

// TestGuards: a guard is kept as it is, the newest of a pool, across restarts.
func TestGuards(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	old, b, a := newAutoRollback("a"), newAutoRollback("b"), newAutoRollback("a")
	old.Phase, b.Rollbacks, b.Until = control.RollingBack, nil, time.Time{}
	for _, g := range []control.RollbackState{old, b, a} {
		if err := s.SaveRollbackState(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	s = openTestStore(t, dir)
	got, err := s.RollbackStates(t.Context())
	if diff := cmp.Diff([]control.RollbackState{a, b}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, g := range []control.RollbackState{{Phase: control.Armed}, {Pool: "a", Phase: "asleep"}} {
		if err := s.SaveRollbackState(t.Context(), g); err == nil {
			t.Errorf("taken: %+v", g)
		}
	}
	if _, err := s.writer.ExecContext(t.Context(), "UPDATE guards SET state = 'asleep'"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RollbackStates(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
}

// TestEventRecorded: a remark is found by incident, kind, actor and time, and its words are
// kept.
func TestEventRecorded(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	b := newIncidentBatch("i-1")
	b.Events[0].Kind, b.Events[0].By, b.Events[0].Text = engine.EventMode, "engine", "automatically"
	saveBatch(t, s, b, nil)
	at := b.Events[0].At
	for _, tt := range []struct {
		incident, kind, actor string
		since                 time.Time
		want                  bool
	}{
		{"i-1", "mode_changed", "engine", at, true}, {"i-1", "mode_changed", "engine", at.Add(time.Millisecond), false},
		{"i-2", "mode_changed", "engine", at, false}, {"i-1", "noted", "engine", at, false}, {"i-1", "mode_changed", "anna", at, false},
	} {
		if got, err := s.HasAnnotation(t.Context(), tt.incident, tt.kind, tt.actor, tt.since); got != tt.want || err != nil {
			t.Errorf("%+v: %v, %v", tt, got, err)
		}
	}
	if st := mustLoadIncident(t, s, "i-1"); st.Events[0].Text != "automatically" {
		t.Errorf("event %+v", st.Events[0])
	}
}
