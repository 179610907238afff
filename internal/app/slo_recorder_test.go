package app

import (
	"log/slog"
	"testing"
	"time"

	"headgate/proxy"
	"headgate/proxy/admission"
)

// TestSLORecordedHourly: repeated records count once, and a new hour begins at 0.
func TestSLORecordedHourly(t *testing.T) {
	r := newFixture(t, nil)
	k := newSLORecorder(r.app.store, r.app.metrics, time.Hour, slog.New(slog.DiscardHandler))
	first := k.hour
	end := func(o admission.Outcome) {
		r.app.metrics.OnEnd(proxy.Observation{Pool: "default", Outcome: o, Arrived: time.Now(), Turnaround: time.Second})
	}
	want := func(since time.Time, wantGood, wantBad int64) {
		t.Helper()
		good, bad, err := r.app.store.SLO(t.Context(), "default", since)
		if err != nil || good != wantGood || bad != wantBad {
			t.Fatalf("good %d, bad %d (%v), want %d and %d", good, bad, err, wantGood, wantBad)
		}
	}
	end(admission.Completed)
	end(admission.Truncated)
	end(admission.Refused)
	for range 2 {
		k.record(t.Context(), first)
		want(first, 1, 1)
	}
	end(admission.Completed)
	k.record(t.Context(), first.Add(time.Hour))
	want(first, 2, 1)
	end(admission.UpstreamError)
	k.record(t.Context(), first.Add(time.Hour+time.Minute))
	want(first, 2, 2)
	want(first.Add(time.Hour), 0, 1)
}
