package app

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/internal/config"
	"headgate/internal/loadgen"
	"headgate/proxy/admission"
)

const weekPool = "default"

// stretch is a time that is replayed on a virtual clock: recorded arrivals go through
// the gate, its metrics through samples and built-in rules, and what would be sent
// is counted. Nobody leaves, and nobody comes back after a refusal.
type stretch struct {
	length   time.Duration
	workers  int
	arrivals loadgen.Arrivals // in order of time
	interval time.Duration    // between samples and between evaluations
}

// run replays, within a bubble of testing/synctest.
func (s stretch) run(t *testing.T) account {
	t.Helper()
	cfg := config.Default()
	cfg.Pools[0].Workers, cfg.Rules.Interval = s.workers, s.interval
	quiet := slog.New(slog.DiscardHandler)
	a, err := New(cfg, "test", quiet)
	must(t, err)
	a.gates[weekPool].SetMode(time.Now(), admission.Enforce)
	db, err := tsdb.Open(tsdb.Options{
		Interval: s.interval, Retention: cfg.Retention.Samples, Gatherer: a.registry, Clock: time.Now, Log: quiet,
	})
	must(t, err)
	c, journal := engine.DefaultConfig(), &book{posted: make(map[string]bool)}
	c.Interval = s.interval
	e, err := engine.New(engine.Options{
		Config: c, Rules: a.rules, Signals: db, Journal: journal, Metrics: a.watchMetrics.engine, Log: quiet, Clock: time.Now,
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		db.Run(ctx)
	}()
	must(t, e.Start(ctx))
	(&traffic{gate: a.gates[weekPool], metrics: a.metrics, slo: cfg.Pools[0].SLO.Turnaround}).run(s)
	must(t, e.Stop(ctx))
	stop()
	<-done
	must(t, db.Close())
	return journal.close(a.metrics.SLO()[weekPool])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// again plays the recording of a coding service over and over, for so long.
func again(t *testing.T, length time.Duration) loadgen.Arrivals {
	t.Helper()
	trace, err := loadgen.CodeTrace()
	must(t, err)
	period := trace[len(trace)-1].At + time.Second
	var all loadgen.Arrivals
	for offset := time.Duration(0); offset < length; offset += period {
		for _, a := range trace {
			if a.At += offset; a.At < length {
				all = append(all, a)
			}
		}
	}
	return all
}

// A night without traffic, after an evening with some: nothing fires, nothing is
// open, nobody is disturbed.
func TestNightWithoutTraffic(t *testing.T) {
	arrivals := again(t, 30*time.Minute)
	synctest.Test(t, func(t *testing.T) {
		a := stretch{length: 8 * time.Hour, workers: 32, arrivals: arrivals, interval: 10 * time.Second}.run(t)
		t.Log(a)
		if len(a.incidents) != 0 || a.open+a.posts+a.pings != 0 || a.tasks == 0 {
			t.Errorf("a night without traffic came to %v", a)
		}
	})
}
