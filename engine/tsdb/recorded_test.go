package tsdb

import (
	"testing"
	"time"
)

// Each minute holds what the counter grew by, and the sum is all of it.
func TestRecordedMinutesAddUp(t *testing.T) {
	r := newFixture(t, nil)
	for n := range 301 {
		r.appendSecond(sample(float64(3*n), "headgate_slo_tasks_total", "pool", "p"))
	}
	if got := r.signal(`count_over_time(headgate:slo_tasks:1m{pool="p"}[1h])`); got != validValue(6) {
		t.Errorf("points: %+v, want 6: one at once, and five minutes", got)
	}
	if got := r.signal(`sum_over_time(headgate:slo_tasks:1m{pool="p"}[1h])`); got != validValue(900) {
		t.Errorf("sum: %+v, want 900", got)
	}
	if got := r.signal(`headgate:slo_tasks:1m{pool="p"}`); got != validValue(180) {
		t.Errorf("the latest minute: %+v, want 180", got)
	}
}

// A counter of a process that has just begun counts from 0, so that what was
// counted before its first sample is not lost.
func TestRecordedCountsFromZero(t *testing.T) {
	r := newFixture(t, nil)
	r.appendSecond(sample(5, "headgate_arrivals_total"))
	if got := r.signal(`sum_over_time(headgate:arrivals:1m[1h])`); got != validValue(5) {
		t.Errorf("got %+v, want 5", got)
	}
}

// An orderly stop loses nothing, and after the restart counters begin at 0.
func TestRecordedSurvivesRestart(t *testing.T) {
	r := newFixture(t, nil)
	for n := range 90 {
		r.appendSecond(sample(float64(n), "headgate_arrivals_total"))
	}
	r.restart(10 * time.Minute)
	for n := range 90 {
		r.appendSecond(sample(float64(n), "headgate_arrivals_total"))
	}
	r.restart(time.Second)
	r.appendSecond(sample(0, "headgate_arrivals_total"))
	if got := r.signal(`sum_over_time(headgate:arrivals:1m[1h])`); got != validValue(89+89) {
		t.Errorf("got %+v, want 178", got)
	}
}

// A counter that begins anew inside a process counts from 0 again.
func TestRecordedFollowsResets(t *testing.T) {
	r := newFixture(t, nil)
	r.appendSecond(sample(100, "headgate_arrivals_total"))
	r.now = r.now.Add(time.Minute)
	r.appendSecond(sample(40, "headgate_arrivals_total"))
	if got := r.signal(`headgate:arrivals:1m`); got != validValue(40) {
		t.Errorf("got %+v, want 40", got)
	}
}

func TestNamesOfRecordedSeries(t *testing.T) {
	for counter, want := range map[string]string{
		"headgate_slo_tasks_total": "headgate:slo_tasks:1m", "headgate_service_seconds_bucket": "headgate:service_seconds_bucket:1m",
		"headgate_queue_depth": "", "up": "", "": "",
	} {
		got, ok := RecordedName(counter)
		if got != want || ok != (want != "") {
			t.Errorf("Recorded(%q) = %q, %v; want %q", counter, got, ok, want)
		}
		if !ok {
			continue
		}
		if back, ok := CounterName(got); back != counter || !ok {
			t.Errorf("Counter(%q) = %q, %v; want %q", got, back, ok, counter)
		}
	}
	if IsRecorded("headgate:nothing:1m") {
		t.Error("headgate:nothing:1m is taken for a recorded series")
	}
}
