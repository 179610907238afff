package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/runbooks/control"
)

// TestPauses: the latest pause of a pool is kept across restarts, and its end
// takes it away.
func TestPauses(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	at := time.Now().UTC().Truncate(time.Millisecond)
	a := control.Pause{Pool: "a", Since: at, Until: at.Add(time.Hour), Actor: "anna", Via: control.ViaAPI, Reason: "new model"}
	longer, b := a, a
	longer.Until, b.Pool = at.Add(2*time.Hour), "b"
	end := control.Pause{Pool: "b", Since: at, Actor: "bert", Via: control.ViaSlack}
	for _, p := range []control.Pause{a, b, longer, end, end} {
		if err := s.SavePause(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	s = openTestStore(t, dir)
	got, err := s.Pauses(t.Context())
	if diff := cmp.Diff([]control.Pause{longer}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, p := range []control.Pause{{Via: control.ViaAPI}, {Pool: "a", Via: "pigeon"}} {
		if err := s.SavePause(t.Context(), p); err == nil {
			t.Errorf("taken: %+v", p)
		}
	}
	if _, err := s.writer.ExecContext(t.Context(), "UPDATE pauses SET pool = 'a' || char(10)"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pauses(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
}
