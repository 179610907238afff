package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
)

type sloStore struct {
	saved []engine.SLOCount
	err   error
}

func (s *sloStore) SaveSLO(_ context.Context, counts []engine.SLOCount) error {
	s.saved = counts
	return s.err
}

func (s *sloStore) Prune(context.Context, time.Time) (int, error) { return 0, nil }

// TestSLORecordedHourly: an hour is saved as a whole each time, an hour that could not be saved is not lost, and a new
// hour begins at 0.
func TestSLORecordedHourly(t *testing.T) {
	store, totals := &sloStore{}, engine.SLOTotals{Tasks: 7, Bad: 3}
	r := engine.NewSLORecorder(store, func() map[string]engine.SLOTotals { return map[string]engine.SLOTotals{"a": totals} },
		time.Hour, slog.New(slog.DiscardHandler))
	first := time.Now().UTC().Truncate(time.Hour)
	want := func(now time.Time, counts ...engine.SLOCount) {
		t.Helper()
		r.Record(t.Context(), now)
		if diff := cmp.Diff(counts, store.saved); diff != "" {
			t.Errorf("saved (-want +got):\n%s", diff)
		}
	}
	want(first)
	totals = engine.SLOTotals{Tasks: 9, Bad: 4}
	for range 2 {
		want(first, engine.SLOCount{Pool: "a", Hour: first, Good: 1, Bad: 1})
	}
	store.err = errors.New("disk full")
	totals.Tasks++
	want(first.Add(time.Hour), engine.SLOCount{Pool: "a", Hour: first, Good: 2, Bad: 1})
	store.err = nil
	want(first.Add(time.Hour), engine.SLOCount{Pool: "a", Hour: first, Good: 2, Bad: 1})
	totals.Tasks, totals.Bad = totals.Tasks+1, totals.Bad+1
	want(first.Add(61*time.Minute), engine.SLOCount{Pool: "a", Hour: first.Add(time.Hour), Bad: 1})
}
