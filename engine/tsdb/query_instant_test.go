package tsdb

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"headgate/engine"
)

// A signal is one finite number, or it is missing.
func TestSignalIsOneFiniteNumber(t *testing.T) {
	r := newFixture(t, nil)
	for range 3 {
		r.appendSecond(
			sample(4, "headgate_depth", "pool", "a"), sample(5, "headgate_depth", "pool", "b"),
			sample(math.NaN(), "headgate_nan"), sample(math.Inf(1), "headgate_inf"), sample(0, "headgate_zero"),
		)
	}
	tests := []struct {
		name, expr string
		want       engine.Value
	}{
		{"one sample", `headgate_depth{pool="a"}`, validValue(4)},
		{"a scalar", `scalar(headgate_depth{pool="b"}) * 2`, validValue(10)},
		{"a number", `7`, validValue(7)},
		{"absent", `headgate_depth{pool="c"}`, missing},
		{"a comparison that does not hold", `headgate_depth{pool="a"} > 4`, missing},
		{"several", `headgate_depth`, missing},
		{"not a number", `headgate_nan`, missing},
		{"infinite", `headgate_inf`, missing},
		{"something by nothing", `headgate_depth{pool="a"} / on() headgate_zero`, missing},
		{"nothing by nothing", `headgate_zero / headgate_zero`, idle},
		{"nothing by nothing, rounded", `round((headgate_zero / headgate_zero), 0.1)`, idle},
		{"not a number by nothing", `headgate_nan / headgate_zero`, missing},
		{"a range vector", `headgate_depth[1m]`, missing},
		{"text", `"four"`, missing},
		{"not PromQL", `headgate_depth{`, missing},
		{"no expression", ``, missing},
		{"too long", strings.Repeat(" ", maxExpr) + "7", missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.signal(tt.expr); got != tt.want {
				t.Errorf("%q: got %+v, want %+v", tt.expr, got, tt.want)
			}
		})
	}
}

// B11, B12: without traffic, or with too little of it, a ratio means nothing.
func TestTooFewEventsAreIdle(t *testing.T) {
	r := newFixture(t, nil)
	for range 3 {
		r.appendSecond(sample(19, "headgate_few"), sample(20, "headgate_enough"), sample(0, "headgate_none"), sample(math.NaN(), "headgate_nan"))
	}
	tests := []struct {
		name, events string
		min          float64
		want         engine.Value
	}{
		{"one too few", "headgate_few", 20, idle},
		{"just enough", "headgate_enough", 20, validValue(0.5)},
		{"none, and none needed", "headgate_none", 0, idle},
		{"their number is absent", "headgate_absent", 20, missing},
		{"their number is none", "headgate_nan", 20, missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.value(engine.Rule{Signal: "0.5", Events: tt.events, MinEvents: tt.min})
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// B13: a counter that exists from the start gives a ratio of 0, not of nothing.
func TestNoBadEventYetIsZero(t *testing.T) {
	r := newFixture(t, nil)
	for n := range 30 {
		r.appendSecond(sample(0, "headgate_slo_bad_tasks_total"), sample(float64(n), "headgate_slo_tasks_total"))
	}
	if got := r.signal(`rate(headgate_slo_bad_tasks_total[20s]) / rate(headgate_slo_tasks_total[20s])`); got != validValue(0) {
		t.Errorf("got %+v, want 0", got)
	}
}

// B9: a series that is there no more is missing at once; one that is merely late is
// missing after a while.
func TestVanishedSeriesIsMissing(t *testing.T) {
	r := newFixture(t, nil)
	r.appendSecond(sample(1, "headgate_gone"), sample(1, "headgate_stays"))
	r.appendSecond(sample(1, "headgate_stays"))
	if got := r.signal("headgate_gone"); got != missing {
		t.Errorf("a series that has ended is %+v, want missing", got)
	}
	r.now = r.now.Add(9 * time.Second)
	if got := r.signal("headgate_stays"); got != validValue(1) {
		t.Errorf("9 s after its latest sample a series is %+v, want 1", got)
	}
	r.now = r.now.Add(time.Second)
	if got := r.signal("headgate_stays"); got != missing {
		t.Errorf("10 s after its latest sample a series is %+v, want missing", got)
	}
	r.appendSecond(sample(2, "headgate_gone"))
	if got := r.signal("headgate_gone"); got != validValue(2) {
		t.Errorf("a series that came back is %+v, want 2", got)
	}
}

// What a done context cuts off is left out, not taken for missing.
func TestValuesObeyTheirContext(t *testing.T) {
	r := newFixture(t, nil)
	r.appendSecond(sample(1, "headgate_x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := r.Values(ctx, r.now, []engine.Rule{{Name: "x", Signal: "headgate_x"}}); len(got) != 0 {
		t.Errorf("after the end of its context: %+v, want nothing", got)
	}
}

// An expression that would hold too many samples is cut off.
func TestExpressionsAreBounded(t *testing.T) {
	r := newFixture(t, nil)
	for range 5 {
		r.appendSecond(sample(1, "headgate_x"))
	}
	_, err := r.QueryInstant(t.Context(), `max_over_time((headgate_x or vector(1))[30d:1s])`, r.now)
	if err == nil || !strings.Contains(err.Error(), "too many samples") && !strings.Contains(err.Error(), "timed out") {
		t.Errorf("2.6 million samples: error %v, want that they are too many", err)
	}
}

func TestCounterResetContinues(t *testing.T) {
	r := newFixture(t, nil)
	for n := range 10 {
		r.appendSecond(sample(float64(n), "headgate_c_total"))
	}
	for n := range 10 {
		r.appendSecond(sample(float64(n), "headgate_c_total"))
	}
	got := r.signal(`increase(headgate_c_total[19s])`)
	if got.Quality != engine.Valid || got.V < 17 || got.V > 20 {
		t.Errorf("grew by %+v, want about 18", got)
	}
}
