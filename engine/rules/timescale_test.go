package rules

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"

	"headgate/engine"
)

func scaledRules(t *testing.T, speed float64, all []engine.Rule) map[engine.Key]engine.Rule {
	t.Helper()
	out, err := Scale(all, engine.TimeScale(speed), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[engine.Key]engine.Rule{}
	for _, r := range out {
		byKey[r.Key()] = r
	}
	return byKey
}

func TestScaleRealTime(t *testing.T) {
	all := builtIn(t, settings())
	for _, s := range []engine.TimeScale{0, 1} {
		got, err := Scale(all, s, time.Second)
		if diff := cmp.Diff(all, got); err != nil || diff != "" {
			t.Errorf("scale %v: %v\n%s", s, err, diff)
		}
		if c := engine.DefaultConfig(); !reflect.DeepEqual(c, s.Config(c, time.Second)) {
			t.Errorf("scale %v changes the engine", s)
		}
	}
}

func TestScaleRules(t *testing.T) {
	got := scaledRules(t, 10, builtIn(t, settings()))
	for name, want := range map[string]engine.Rule{
		"queue_age":      {Warn: engine.Threshold{For: 3 * time.Second}, Page: engine.Threshold{For: 6 * time.Second}, Clear: engine.Clear{For: 3 * time.Second}},
		"refused_share":  {Warn: engine.Threshold{For: 12 * time.Second}, Page: engine.Threshold{For: 30 * time.Second}, Clear: engine.Clear{For: 12 * time.Second}},
		"turnaround_p95": {Warn: engine.Threshold{For: 12 * time.Second}, Page: engine.Threshold{For: 12 * time.Second}, Clear: engine.Clear{For: 12 * time.Second}},
		"stalled":        {Page: engine.Threshold{For: time.Second}, Clear: engine.Clear{For: 3 * time.Second}},
	} {
		r := got[engine.Key{Rule: name, Pool: "default"}]
		if r.Warn.For != want.Warn.For || r.Page.For != want.Page.For || r.Clear.For != want.Clear.For {
			t.Errorf("%s lasts %v, %v and %v, want %v, %v and %v", name, r.Warn.For, r.Page.For, r.Clear.For, want.Warn.For, want.Page.For, want.Clear.For)
		}
	}
	if s := got[engine.Key{Rule: "turnaround_p95", Pool: "default"}]; !strings.Contains(s.Signal, "[30s]") || !strings.Contains(s.Events, "[30s]") {
		t.Errorf("windows of turnaround_p95: %s over %s, want 30 s", s.Signal, s.Events)
	}
}

// Rules of the process stay, rules that cannot be scaled are left out, and no threshold changes.
func TestScaleSkipsRealTimeRules(t *testing.T) {
	all := builtIn(t, settings())
	got := scaledRules(t, 20, all)
	var gone []string
	for _, r := range all {
		p, there := got[r.Key()]
		switch {
		case !there:
			gone = append(gone, r.Name)
		case r.Pool == "":
			if diff := cmp.Diff(r, p); diff != "" {
				t.Errorf("%s of the process is changed:\n%s", r.Name, diff)
			}
		case r.Warn.At != p.Warn.At || r.Page.At != p.Page.At || r.Clear.Below != p.Clear.Below || r.MinEvents != p.MinEvents:
			t.Errorf("%s has other thresholds: %+v, was %+v", r.Name, p, r)
		}
	}
	slices.Sort(gone)
	if want := []string{"envelope_use", "slo_burn_1d", "slo_burn_1h", "slo_burn_3d", "slo_burn_6h"}; !slices.Equal(gone, want) {
		t.Errorf("left out %v, want %v", gone, want)
	}
}

// At any scale a rule has enough evaluations and samples.
func TestScaleMinimums(t *testing.T) {
	for _, speed := range []float64{1.5, 5, 10, 20, 33.3, 100, 1000} {
		interval := engine.TimeScale(speed).Interval(time.Second)
		if interval < 50*time.Millisecond || interval > time.Second {
			t.Errorf("scale %v: every %v", speed, interval)
		}
		for key, r := range scaledRules(t, speed, builtIn(t, settings())) {
			for _, d := range []time.Duration{r.Warn.For, r.Page.For, r.Clear.For} {
				if d > 0 && d < 5*interval {
					t.Errorf("scale %v: %s lasts %v, evaluated every %v", speed, key.Rule, d, interval)
				}
			}
			for _, text := range []string{r.Signal, r.Events} {
				if text != "" && narrowestWindow(t, text) < 3*interval {
					t.Errorf("scale %v: %s has a window of less than three samples: %s", speed, key.Rule, text)
				}
			}
		}
	}
}

func narrowestWindow(t *testing.T, text string) time.Duration {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	least := time.Duration(math.MaxInt64)
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			least = min(least, n.Range)
		case *parser.SubqueryExpr:
			least = min(least, n.Range)
		}
		return nil
	})
	return least
}

func TestScaleExpressions(t *testing.T) {
	for from, to := range map[string]string{
		`rate(headgate_a[5m])`:                                     `rate(headgate_a[30s])`,
		`rate(headgate_a[1s])`:                                     `rate(headgate_a[400ms])`, // three samples at least
		`headgate_a{pool="x"} offset 1m`:                           `headgate_a{pool="x"} offset 6s`,
		`rate(headgate_a[1m] offset 5m)`:                           `rate(headgate_a[6s] offset 30s)`,
		`max_over_time(rate(headgate_a[1m])[15m:5s] offset 1m)`:    `max_over_time(rate(headgate_a[6s])[1m30s:500ms] offset 6s)`,
		`max_over_time(headgate_a[15m:])`:                          `max_over_time(headgate_a[1m30s:])`,
		`sum_over_time(headgate:slo_tasks:1m[30m])`:                `sum_over_time(headgate:slo_tasks:1m[30m])`,
		`headgate_a / rate(headgate_b[10s]) > bool 1 or vector(7)`: `headgate_a / rate(headgate_b[1s]) > bool 1 or vector(7)`,
	} {
		rule := engine.Rule{Name: "r", Pool: "x", Signal: from, Events: from}
		got := scaledRules(t, 10, []engine.Rule{rule})[rule.Key()]
		if got.Signal != to || got.Events != to {
			t.Errorf("%s becomes %s and %s, want %s", from, got.Signal, got.Events, to)
		}
	}
	if _, err := Scale([]engine.Rule{{Name: "odd", Pool: "x", Signal: "rate("}}, 10, time.Second); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("a signal that is none: %v", err)
	}
}
