package seed_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"headgate/e2e/seed"
	"headgate/internal/sqlite"
	"headgate/runbooks/drill"
)

// TestHistoryIsStored: what is made up is a history as the record takes it, with runs of
// every kind and their evidence.
func TestHistoryIsStored(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Writer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	n, err := seed.Fill(t.Context(), store.Drills(), now, 120, 1)
	if err != nil || n < 110 || n > 140 {
		t.Fatalf("%d runs, %v", n, err)
	}
	runs := allRuns(t, store.Drills())
	if len(runs) != n {
		t.Errorf("%d of %d runs are kept", len(runs), n)
	}
	seen := map[drill.Verdict]int{}
	for _, r := range runs {
		seen[r.Verdict]++
		if r.Status != drill.Ended || r.Started.After(now) {
			t.Errorf("run %s of %s: %s at %s", r.ID, r.Drill, r.Status, r.Started)
		}
	}
	if seen[drill.Passed] < n*3/4 || seen[drill.Failed] == 0 || len(seen) < 5 {
		t.Errorf("verdicts: %v", seen)
	}
	for _, r := range runs {
		if r.Verdict != drill.Passed {
			continue
		}
		whole, err := store.Drills().Run(t.Context(), r.ID)
		if err != nil || len(whole.Series) < 60 || len(whole.Phases) < 7 || len(whole.Hypotheses) != len(whole.Spec.Expect) {
			t.Fatalf("run %s has %d points, %d phases: %v", r.ID, len(whole.Series), len(whole.Phases), err)
		}
		break
	}
}

func allRuns(t *testing.T, store drill.Store) (runs []drill.Run) {
	t.Helper()
	q := drill.Query{Limit: 100}
	for {
		page, next, err := store.Runs(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, page...)
		if q.After = next; next == "" {
			return runs
		}
	}
}
