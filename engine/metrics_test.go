package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Before anything has happened, everything that can be known is there at zero.
func TestMetricsAtZero(t *testing.T) {
	r := newFixture(t, nil)
	for _, name := range []string{
		"headgate_evaluation_seconds", "headgate_evaluations_late_total", "headgate_evaluations_skipped_total",
		"headgate_evaluations_failed_total", "headgate_incident_events_dropped_total", "headgate_incident_events_unrecorded",
	} {
		if got := r.metric(name); got != 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	for _, level := range []string{"warn", "page"} {
		if got := r.metric("headgate_incidents_open", level); got != 0 {
			t.Errorf("%s: %v incidents", level, got)
		}
	}
	for _, state := range StateLabels() {
		want := boolToFloat(state == "ok")
		if got := r.metric("headgate_rule_state", "p", "age", state); got != want {
			t.Errorf("state %s is %v, want %v", state, got, want)
		}
	}
}

// A rule is in one state at a time, and the incidents are those that are open.
func TestMetricsFollowState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		defer r.stop()
		for _, step := range []struct {
			v          Value
			d          time.Duration
			state      string
			warn, page float64
		}{
			{low, time.Second, "ok", 0, 0},
			{warn, 2 * time.Second, "pending", 0, 0},
			{warn, 5 * time.Second, "warn", 1, 0},
			{page, 12 * time.Second, "page", 0, 1},
			{low, 2 * time.Second, "recovering", 0, 1},
			{low, 5 * time.Second, "ok", 0, 0},
		} {
			r.signals.set(ruleKey, step.v)
			advance(step.d)
			sum := 0.0
			for _, name := range StateLabels() {
				sum += r.metric("headgate_rule_state", "p", "age", name)
			}
			if r.metric("headgate_rule_state", "p", "age", step.state) != 1 || sum != 1 {
				t.Errorf("not in state %s, or in %v states", step.state, sum)
			}
			w, p := r.metric("headgate_incidents_open", "warn"), r.metric("headgate_incidents_open", "page")
			if w != step.warn || p != step.page {
				t.Errorf("%s: %v warnings and %v pages are open", step.state, w, p)
			}
		}
		if got := r.metric("headgate_evaluation_seconds"); got != 28 {
			t.Errorf("%v evaluations counted, want 28", got)
		}
	})
}

// The counter of journal errors is shared by the packages that register it.
func TestMetricsShareJournalErrors(t *testing.T) {
	reg := prometheus.NewRegistry()
	there := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_journal_errors_total", Help: "Failed reads and writes of the record by operation.",
	}, []string{"op"})
	reg.MustRegister(there)
	m, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	if m.journalErrors != there {
		t.Error("it counts on its own")
	}
	if _, err := NewMetrics(reg); err == nil {
		t.Error("two engines share their metrics")
	}
	other := prometheus.NewRegistry()
	other.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "headgate_journal_errors_total", Help: "Something else."}))
	if _, err := NewMetrics(other); err == nil {
		t.Error("a metric of another kind was taken for it")
	}
}
