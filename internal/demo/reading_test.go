package demo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadingCountsEveryTaskOnce(t *testing.T) {
	expired := refusedTask(20, deadlineReason)
	expired.ended = sec(80)
	tasks := []task{
		answeredTask(0, 0, 10),   // in time, too long ago for the p95
		answeredTask(10, 20, 45), // in time, 35 s
		answeredTask(11, 30, 90), // late, 79 s
		refusedTask(50, "queue_age"),
		refusedTask(51, "queue_age"),
		refusedTask(52, ""),
		expired,         // 60 s
		waitingTask(30), // over the SLO already
		waitingTask(95),
		{intended: sec(60), sent: sec(60), started: sec(70), ended: unset},
		{intended: sec(200), sent: unset, started: unset, ended: unset},
	}
	got := newReading(tasks, slo, sec(100))
	got.Depth = nil
	want := Reading{
		Arrivals: 10, Admitted: 7, Queued: 2, Oldest: sec(70),
		P95: sec(79), Ended: 3, InTime: 2, OverSLO: 3,
		Refused: map[string]int{"queue_age": 2, "none": 1, "deadline_passed": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
	if got.TotalRefused() != 4 {
		t.Errorf("turned %d, want 4", got.TotalRefused())
	}
}

func TestReadingOfNothing(t *testing.T) {
	got := newReading(nil, slo, 0)
	want := Reading{Refused: map[string]int{}, Depth: []Step{{}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
}

func TestQuantileIsNearestRank(t *testing.T) {
	var twenty []time.Duration
	for i := range 20 {
		twenty = append(twenty, time.Duration(20-i))
	}
	for _, c := range []struct {
		all  []time.Duration
		q    float64
		want time.Duration
	}{
		{nil, 0.95, 0},
		{[]time.Duration{7}, 0.5, 7},
		{[]time.Duration{7}, 0, 7},
		{twenty, 0.95, 19},
		{twenty, 0.951, 20},
		{twenty, 0.5, 10},
		{twenty, 1, 20},
	} {
		if got := quantile(c.all, c.q); got != c.want {
			t.Errorf("quantile %v of %d values: %d, want %d", c.q, len(c.all), got, c.want)
		}
	}
}
