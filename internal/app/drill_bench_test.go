package app

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/internal/lifecycle"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
	"headgate/runbooks/drill"
)

// BenchmarkSandboxBesideProduction measures what a twin at full load costs production:
// the p99 of its turnaround alone and beside the twin, in turns and in one process.
// The aim is a ratio of at most 1.1, and counters that do not move. With -short it only
// shows that it works.
func BenchmarkSandboxBesideProduction(b *testing.B) {
	for b.Loop() {
		alone, beside := measureSandboxImpact(b)
		b.ReportMetric(alone*1000, "p99-alone-ms")
		b.ReportMetric(beside*1000, "p99-beside-ms")
		b.ReportMetric(beside/alone, "p99-ratio")
	}
}

// benchRounds are of each kind, in turns, so that a machine that changes changes both.
const benchRounds = 3

func measureSandboxImpact(b *testing.B) (alone, beside float64) {
	b.Helper()
	stub, err := modelstub.New(modelstub.Config{Service: modelstub.Uniform{Low: 200 * time.Millisecond, High: 600 * time.Millisecond}, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	endpoint := httptest.NewServer(stub)
	defer endpoint.Close()
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.DataDir, cfg.Drain = lifecycle.Loopback, lifecycle.Loopback, b.TempDir(), 0
	cfg.Pools[0].Upstream, cfg.Pools[0].Workers = endpoint.URL+"/v1", 64
	a, err := New(cfg, "bench", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	if err := a.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := a.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	rounds, lasts := benchRounds, 8*time.Second
	if testing.Short() {
		rounds, lasts = 1, time.Second
	}
	var apart, together []float64
	for range rounds {
		apart = append(apart, productionP99(b, a, lasts))
		stop := openSaturatedSandbox(b, a)
		together = append(together, productionP99(b, a, lasts))
		stop()
	}
	slices.Sort(apart)
	slices.Sort(together)
	return apart[rounds/2], together[rounds/2]
}

// productionP99 loads production for a while, and returns the p99 of its turnaround
// in seconds.
func productionP99(b *testing.B, a *App, lasts time.Duration) float64 {
	b.Helper()
	const rate = 60 // arrivals a second
	arrivals, err := loadgen.Constant(rate, lasts)
	if err != nil {
		b.Fatal(err)
	}
	before := a.metrics.proxy.Arrivals()
	report, err := loadgen.Run(b.Context(), loadgen.Config{URL: "http://" + a.DataAddr() + "/v1"}, arrivals.Source())
	if err != nil {
		b.Fatal(err)
	}
	if moved := a.metrics.proxy.Arrivals() - before; moved != float64(report.Arrivals) || report.ByOutcome[loadgen.OK] != report.Arrivals {
		b.Errorf("%v arrivals were counted of %d, %v", moved, report.Arrivals, report.ByOutcome)
	}
	return report.Turnaround.P99
}

// openSaturatedSandbox opens a twin that has more to do than it can, and waits until it refuses.
func openSaturatedSandbox(b *testing.B, a *App) (stop func()) {
	b.Helper()
	run := drill.Run{ID: "bench", Name: "bench", Speed: 10, Spec: drill.Spec{
		ID: "bench", Name: "bench", Target: drill.Twin, Recovery: time.Minute, Scenario: drill.Scenario{
			Duration: time.Hour, Workers: 16, Service: "uniform:5s-30s", Seed: 1, Arrivals: drill.Arrivals{Rate: 1.6},
		},
	}}
	s, err := a.drillEnvironments().Open(b.Context(), run)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	full := func(e drill.Evidence) bool {
		return slices.ContainsFunc(e.Tasks, func(t drill.Task) bool { return t.Outcome == drill.Refused })
	}
	for e := (drill.Evidence{}); !full(e); time.Sleep(50 * time.Millisecond) {
		if e, err = s.Observe(b.Context()); err != nil || e.At > 5*time.Minute {
			b.Fatalf("the twin is not full at %v, %v", e.At, err)
		}
	}
	return func() {
		if err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}
}
