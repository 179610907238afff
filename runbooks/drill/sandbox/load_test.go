package sandbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"headgate/internal/loadgen"
	"headgate/runbooks/drill"
)

func TestTaskOutcomes(t *testing.T) {
	for want, r := range map[drill.TaskOutcome]loadgen.Result{
		drill.Served: {Outcome: loadgen.OK}, drill.Refused: {Outcome: loadgen.Refused}, drill.Broken: {Outcome: loadgen.Truncated},
		drill.TimedOut: {Outcome: loadgen.Failed, Cause: loadgen.Timeout}, drill.Errored: {Outcome: loadgen.Failed, Status: 502},
		drill.Unsent: {Outcome: loadgen.Dropped},
	} {
		if got := taskEnd(r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := taskEnd(loadgen.Result{Outcome: loadgen.Failed, Cause: loadgen.ErrorEvent, Status: 200}); got != drill.Broken {
		t.Errorf("an error in the stream is %s", got)
	}
}

// TestKeptRate: the lag of a generator counts on the wall clock.
func TestKeptRate(t *testing.T) {
	l := &generatedLoad{clock: &scenarioClock{speed: 10}}
	for _, tt := range []struct {
		lag    time.Duration
		unsent int
		kept   bool
	}{{9 * maxSendLag, 0, true}, {11 * maxSendLag, 0, false}, {0, 1, false}} {
		lags := make([]time.Duration, 100)
		lags[3], lags[4] = tt.lag, tt.lag
		if kept, note := l.keptRate(lags, tt.unsent); kept != tt.kept || kept != (note == "") {
			t.Errorf("%+v: %t, %q", tt, kept, note)
		}
	}
}

func TestStalls(t *testing.T) {
	var l stallDetector
	l.record(3*time.Second, stallThreshold-time.Millisecond)
	l.record(4*time.Second, stallThreshold)
	if got := l.snapshot(); len(got) != 1 || got[0].At != 4*time.Second || got[0].Took != stallThreshold {
		t.Errorf("noted %v", got)
	}
	for range 2 * maxStalls {
		l.record(0, time.Hour)
	}
	if got := len(l.snapshot()); got != maxStalls {
		t.Errorf("%d are kept", got)
	}
}

// TestNoStalls: on a machine that lets everything run nothing is recorded.
func TestNoStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l stallDetector
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l.watch(ctx, &scenarioClock{speed: 1})
		if got := l.snapshot(); len(got) > 0 {
			t.Errorf("noted %v", got)
		}
	})
}
