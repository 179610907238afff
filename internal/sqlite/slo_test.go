package sqlite

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"headgate/engine"
)

func mustSaveSLO(t *testing.T, s *Store, counts ...engine.SLOCount) {
	t.Helper()
	if err := s.SaveSLO(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
}

func wantSLO(t *testing.T, s *Store, pool string, since time.Time, good, bad int64) {
	t.Helper()
	g, b, err := s.SLO(t.Context(), pool, since)
	if err != nil || g != good || b != bad {
		t.Errorf("%s since %v: %d good, %d bad, %v; want %d and %d", pool, since, g, b, err, good, bad)
	}
}

// TestSLO: counts are totals of an hour and an opening of the record: recording
// them again, or late, changes nothing, and what another opening counts adds up.
func TestSLO(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	wantSLO(t, s, "p", noon, 0, 0)
	for range 3 {
		mustSaveSLO(t, s, engine.SLOCount{Pool: "p", Hour: noon, Good: 10, Bad: 1}, engine.SLOCount{Pool: "p", Hour: noon.Add(time.Hour), Good: 5, Bad: 0}, engine.SLOCount{Pool: "q", Hour: noon, Good: 7, Bad: 7})
	}
	wantSLO(t, s, "p", noon, 15, 1)
	mustSaveSLO(t, s, engine.SLOCount{Pool: "p", Hour: noon.Add(30 * time.Minute), Good: 12, Bad: 2}) // the same hour
	mustSaveSLO(t, s, engine.SLOCount{Pool: "p", Hour: noon, Good: 10, Bad: 1})                       // comes late
	wantSLO(t, s, "p", noon, 17, 2)
	closeStore(t, s)
	s = openTestStore(t, dir) // counts from 0 again
	mustSaveSLO(t, s, engine.SLOCount{Pool: "p", Hour: noon, Good: 3, Bad: 1})
	for _, tt := range []struct {
		pool      string
		since     time.Time
		good, bad int64
	}{
		{"p", time.Time{}, 20, 3}, {"p", noon.Add(-time.Hour), 20, 3}, {"p", noon, 20, 3}, {"p", noon.Add(59 * time.Minute), 20, 3},
		{"p", noon.Add(time.Hour), 5, 0}, {"p", noon.Add(2 * time.Hour), 0, 0}, {"q", noon, 7, 7}, {"r", noon, 0, 0},
	} {
		wantSLO(t, s, tt.pool, tt.since, tt.good, tt.bad)
	}
}

// TestSLOUnwritable: counts that make no sense are refused, all of their batch.
func TestSLOUnwritable(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	for _, c := range []engine.SLOCount{
		{Pool: "", Hour: noon, Good: 1, Bad: 1}, {Pool: "a\nb", Hour: noon, Good: 1, Bad: 1}, {Pool: strings.Repeat("p", maxName+1), Hour: noon, Good: 1, Bad: 1},
		{Pool: "p", Hour: noon, Good: -1, Bad: 1}, {Pool: "p", Hour: noon, Good: 1, Bad: -1}, {Pool: "p", Hour: noon, Good: maxCount + 1, Bad: 1}, {Pool: "p", Hour: noon, Good: 1, Bad: maxCount + 1},
	} {
		if err := s.SaveSLO(t.Context(), []engine.SLOCount{{Pool: "p", Hour: noon, Good: 1, Bad: 1}, c}); err == nil {
			t.Errorf("recorded %+v", c)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SaveSLO(ctx, []engine.SLOCount{{Pool: "p", Hour: noon, Good: 1, Bad: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	wantSLO(t, s, "p", time.Time{}, 0, 0)
}

// TestSLOHostile: sums that make no sense are an error.
func TestSLOHostile(t *testing.T) {
	for _, row := range []string{
		"('p', 1772366400000, 'r', 'many', 1, 'w')", "('p', 1772366400000, 'r', 1.5, 1, 'w')", "('p', 1772366400000, 'r', 9007199254740992, 1, 'w')",
		"('p', 1772366400000, 'r', 1, 1e300, 'w')",
	} {
		s := storeKinds["ephemeral"](t)
		if _, err := s.writer.ExecContext(t.Context(), "INSERT INTO slo_hours VALUES "+row); err != nil {
			t.Fatal(row, err)
		}
		good, bad, err := s.SLO(t.Context(), "p", time.Time{})
		if !errors.Is(err, ErrCorrupt) || good != 0 || bad != 0 {
			t.Errorf("%s: %d, %d, %v, want ErrCorrupt", row, good, bad, err)
		}
	}
}
