package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
	"headgate/runbooks/control"
)

func someGuard(pool string) control.Guard {
	at := time.Now().UTC().Truncate(time.Millisecond)
	return control.Guard{
		Pool: pool, State: control.Cooldown, Since: at, Until: at.Add(time.Hour), Rule: "false_refusal", Incident: "i-1", Change: "c-1",
		Flips: []time.Time{at.Add(-time.Hour), at}, LatchedUntil: at.Add(4 * time.Hour), LatchedBy: "anna", Latch: "restore to enforce",
	}
}

// TestGuards: a guard is kept as it is, the newest of a pool, across restarts.
func TestGuards(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	old, b, a := someGuard("a"), someGuard("b"), someGuard("a")
	old.State, b.Flips, b.Until = control.Flipping, nil, time.Time{}
	for _, g := range []control.Guard{old, b, a} {
		if err := s.SaveGuard(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, s)
	s = openIn(t, dir)
	got, err := s.Guards(t.Context())
	if diff := cmp.Diff([]control.Guard{a, b}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, g := range []control.Guard{{State: control.Armed}, {Pool: "a", State: "asleep"}} {
		if err := s.SaveGuard(t.Context(), g); err == nil {
			t.Errorf("taken: %+v", g)
		}
	}
	if _, err := s.writer.ExecContext(t.Context(), "UPDATE guards SET state = 'asleep'"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Guards(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
}

// TestTold: a remark is found by incident, kind, actor and time, and its words are
// kept.
func TestTold(t *testing.T) {
	s := openIn(t, t.TempDir())
	b := trouble("i-1")
	b.Events[0].Kind, b.Events[0].By, b.Events[0].Words = engine.EventMode, "engine", "automatically"
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
		if got, err := s.Told(t.Context(), tt.incident, tt.kind, tt.actor, tt.since); got != tt.want || err != nil {
			t.Errorf("%+v: %v, %v", tt, got, err)
		}
	}
	if st := story(t, s, "i-1"); st.Events[0].Words != "automatically" {
		t.Errorf("event %+v", st.Events[0])
	}
}
