package rules

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/engine/tsdb"
)

// names that are promised, for each pool and for the process.
var (
	poolNames = []string{
		"queue_age", "queue_depth", "turnaround_p95", "refused_share", "upstream_errors", "stalled", "envelope_use",
		"slo_burn_1h", "slo_burn_6h", "slo_burn_1d", "slo_burn_3d", "signal_missing",
		"false_refusal", "gate_fault", "gate_latency",
	}
	actingNames  = []string{"false_refusal", "gate_fault", "gate_latency"}
	processNames = []string{"delivery_stuck", "delivery_dead", "evaluation_late", "journal_failing", "drill_overdue", "signal_missing"}
)

func TestBuiltInRulesComplete(t *testing.T) {
	s := settings()
	other := defaultPool()
	other.Name = "other"
	s.Pools = append(s.Pools, other)
	all := builtIn(t, s)
	if err := engine.CheckRules(all); err != nil {
		t.Fatal(err)
	}
	there := map[engine.Key]bool{}
	for _, r := range all {
		there[r.Key()] = true
		if r.Summary == "" || r.Impact == "" || r.Runbook == "" {
			t.Errorf("%v: summary %q, impact %q, runbook %q, action %q", r.Key(), r.Summary, r.Impact, r.Runbook, r.Action)
		}
		want := ""
		if slices.Contains(actingNames, r.Name) {
			want = "rollback"
		}
		if r.Action != want {
			t.Errorf("%v: action %q, want %q", r.Key(), r.Action, want)
		}
		if strings.Contains(r.Signal+r.Events, "$") {
			t.Errorf("%v: a variable was not filled in: %s", r.Key(), r.Signal)
		}
	}
	for _, pool := range []string{"default", "other"} {
		for _, name := range poolNames {
			if !there[engine.Key{Rule: name, Pool: pool}] {
				t.Errorf("pool %s has no rule %s", pool, name)
			}
		}
	}
	for _, name := range processNames {
		if !there[engine.Key{Rule: name}] {
			t.Errorf("the process has no rule %s", name)
		}
	}
	if want := 2*len(poolNames) + len(processNames); len(all) != want {
		t.Errorf("%d rules, want %d", len(all), want)
	}
}

// Thresholds follow from the settings of the pool.
func TestThresholdsFollowFromThePool(t *testing.T) {
	s := settings()
	s.Pools[0] = Pool{Name: "p", Workers: 10, SLO: 2 * time.Minute, Objective: 0.99, Window: 28 * 24 * time.Hour, MaxQueueAge: 50 * time.Second, DepthMultiple: 3}
	want := map[string][2]float64{
		"queue_age": {30, 50}, "queue_depth": {18, 30}, "turnaround_p95": {90, 120}, "refused_share": {0.05, 0.25},
		"upstream_errors": {0.05, 0.20}, "envelope_use": {0.8, 1}, "stalled": {0, 1},
		"slo_burn_1h": {0, 14.4}, "slo_burn_6h": {0, 6}, "slo_burn_1d": {3, 0}, "slo_burn_3d": {1, 0},
	}
	for _, r := range builtIn(t, s) {
		if w, ok := want[r.Name]; ok && (r.Warn.At != w[0] || r.Page.At != w[1]) {
			t.Errorf("%s: warn at %v, page at %v; want %v", r.Name, r.Warn.At, r.Page.At, w)
		}
		if slow := strings.HasPrefix(r.Name, "slo_burn"); r.Slow != slow {
			t.Errorf("%s: slow is %v, want %v", r.Name, r.Slow, slow)
		}
		if strings.HasPrefix(r.Name, "slo_burn") && !strings.Contains(r.Signal, "/ 0.01,") {
			t.Errorf("%s: the budget of 0.01 is not in %s", r.Name, r.Signal)
		}
	}
}

// A longer interval stretches every for to five evaluations.
func TestForsFollowTheInterval(t *testing.T) {
	s := settings()
	s.Interval = 20 * time.Second
	for _, r := range builtIn(t, s) {
		for _, d := range []time.Duration{r.Warn.For, r.Page.For, r.Clear.For} {
			if d > 0 && d < 100*time.Second {
				t.Errorf("%s: for %s, want at least 100s", r.Name, d)
			}
		}
	}
}

// B14, and settings without sense.
func TestBuiltInRulesImpossibleSettings(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Settings)
		want string
	}{
		{"an objective of 0.9", func(s *Settings) { s.Pools[0].Objective = 0.9 }, "built-in rule slo_burn_1h: page.at: can never be reached in pool default: 14.4 × (1 − 0.9) = 1.44"},
		{"a window of 12 h", func(s *Settings) { s.Pools[0].Window = 12 * time.Hour }, "14.4 × 1h ÷ 12h = 1.2"},
		{"samples of a day", func(s *Settings) { s.Retention = 24 * time.Hour }, "built-in rule slo_burn_3d: signal: looks back 3d, and samples are kept for 1d"},
		{"no workers", func(s *Settings) { s.Pools[0].Workers = 0 }, "workers 0"},
		{"no SLO", func(s *Settings) { s.Pools[0].SLO = 0 }, "SLO 0s"},
		{"an objective of 1", func(s *Settings) { s.Pools[0].Objective = 1 }, "the objective is 1"},
		{"no name", func(s *Settings) { s.Pools[0].Name = "" }, "no name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings()
			tt.edit(&s)
			if got, err := BuiltIn(s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%d rules, error %v; want %s", len(got), err, tt.want)
			}
		})
	}
}

// An SLO that is very short or very long leaves every signal valid.
func TestBuiltInRulesForAnySLO(t *testing.T) {
	db, err := tsdb.Open(tsdb.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, slo := range []time.Duration{50 * time.Millisecond, time.Second, 61500 * time.Millisecond, time.Hour, 100 * time.Hour} {
		s := settings()
		s.Pools[0].SLO = slo
		for _, r := range builtIn(t, s) {
			if r.Signal == "" {
				continue
			}
			if _, err := db.QueryInstant(context.Background(), r.Signal, time.Now()); err != nil && !strings.Contains(err.Error(), "there is no sample") {
				t.Errorf("SLO %s, rule %s: %v in\n%s", slo, r.Name, err, r.Signal)
			}
		}
	}
}
