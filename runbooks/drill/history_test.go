package drill

import (
	"testing"
	"time"
)

// TestTightest: what was closest to its limit is named, what was broken before
// that, and what has no margin only when there is nothing else.
func TestTightest(t *testing.T) {
	expect := func(m Measure, c Compare, limit float64) Expectation {
		return Expectation{Measure: m, Compare: c, Limit: limit}
	}
	p95 := Hypothesis{Expectation: expect(P95, AtMost, 60), Measured: true, Value: 41, Margin: 0.3, Passed: true}
	late := Hypothesis{Expectation: expect(LateShare, AtMost, 0.1), Measured: true, Margin: 0.9, Passed: true}
	exact := Hypothesis{Expectation: expect(TasksLost, Equal, 0), Measured: true, Passed: true}
	none := Hypothesis{Expectation: expect(FalseCompletions, AtMost, 0), Measured: true, Passed: true}
	lost := Hypothesis{Expectation: expect(TasksLost, Equal, 0), Measured: true, Value: 3, Margin: -3}
	unknown := Hypothesis{Expectation: expect(TimeToPage, AtMost, 30), Margin: -9}
	for name, tt := range map[string]struct {
		all  []Hypothesis
		want Measure // empty: none
	}{
		"none":          {nil, ""},
		"none known":    {[]Hypothesis{unknown}, ""},
		"the least":     {[]Hypothesis{late, p95, unknown}, P95},
		"past exact":    {[]Hypothesis{exact, late, none}, LateShare},
		"broken":        {[]Hypothesis{p95, lost, late}, TasksLost},
		"nothing else":  {[]Hypothesis{unknown, none, exact}, FalseCompletions},
		"the first one": {[]Hypothesis{p95, p95, exact}, P95},
	} {
		got, ok := Run{Hypotheses: tt.all}.Tightest()
		if ok != (tt.want != "") || got.Measure != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, got.Measure, ok, tt.want)
		}
	}
	for _, v := range []Verdict{Aborted, Interrupted} {
		if got, ok := (Run{Verdict: v, Hypotheses: []Hypothesis{p95}}).Tightest(); ok {
			t.Errorf("a run that was %s has the margin %+v", v, got)
		}
	}
}

func TestOverdue(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	const week = 7 * 24 * time.Hour
	for _, c := range []struct {
		name        string
		pass, known time.Duration // ago; 0: never
		period      time.Duration
		want        bool
	}{
		{"fresh", week, 0, week, false},
		{"just in time", week + week/2, 0, week, false},
		{"too old", week + week/2 + time.Second, 0, week, true},
		{"never passed, new", 0, week, week, false},
		{"never passed, old", 0, 2 * week, week, true},
		{"never passed, not known since when", 0, 0, week, false},
		{"no schedule", 52 * week, 0, 0, false},
	} {
		ago := func(d time.Duration) time.Time {
			if d == 0 {
				return time.Time{}
			}
			return now.Add(-d)
		}
		if got := Overdue(now, ago(c.pass), ago(c.known), c.period); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}
