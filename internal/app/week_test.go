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

const replayPool = "default"

// replay is a time that is replayed on a virtual clock: recorded arrivals go through
// the gate, its metrics through samples and built-in rules, and what would be sent
// is counted. No client leaves, and no client retries after a refusal.
type replay struct {
	length   time.Duration
	workers  int
	arrivals loadgen.Arrivals // in order of time
	interval time.Duration    // between samples and between evaluations
}

// run replays, within a bubble of testing/synctest.
func (s replay) run(t *testing.T) replayReport {
	t.Helper()
	cfg := config.Default()
	cfg.Pools[0].Workers, cfg.Rules.Interval = s.workers, s.interval
	quiet := slog.New(slog.DiscardHandler)
	a, err := New(cfg, "test", quiet)
	requireNoError(t, err)
	a.current.Load().gates[replayPool].SetMode(time.Now(), admission.Enforce)
	db, err := tsdb.Open(tsdb.Options{
		Interval: s.interval, Retention: cfg.Retention.Samples, Gatherer: a.metrics.registry, Clock: time.Now, Log: quiet,
	})
	requireNoError(t, err)
	c, journal := engine.DefaultConfig(), &countingJournal{posted: make(map[string]bool)}
	c.Interval = s.interval
	e, err := engine.New(engine.Options{
		Config: c, Rules: a.current.Load().rules, Signals: db, Journal: journal, Metrics: a.metrics.engine, Log: quiet, Clock: time.Now,
	})
	requireNoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		db.Run(ctx)
	}()
	requireNoError(t, e.Start(ctx))
	(&replayTraffic{gate: a.current.Load().gates[replayPool], metrics: a.metrics.proxy, slo: cfg.Pools[0].SLO.Turnaround}).run(s)
	requireNoError(t, e.Stop(ctx))
	stop()
	<-done
	requireNoError(t, db.Close())
	return journal.finish(a.metrics.proxy.SLO()[replayPool])
}

func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// repeatTrace plays the recording of a coding service over and over, for so long.
func repeatTrace(t *testing.T, length time.Duration) loadgen.Arrivals {
	t.Helper()
	trace, err := loadgen.CodeTrace()
	requireNoError(t, err)
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

// A night without traffic, after an evening with some: no rule fires, no incident is open, no message is sent.
func TestNightWithoutTraffic(t *testing.T) {
	t.Parallel()
	arrivals := repeatTrace(t, 10*time.Minute)
	synctest.Test(t, func(t *testing.T) {
		a := replay{length: 7 * time.Hour, workers: 32, arrivals: arrivals, interval: 20 * time.Second}.run(t)
		t.Log(a)
		if len(a.incidents) != 0 || a.open+a.messages+a.notifications != 0 || a.tasks == 0 {
			t.Errorf("a night without traffic: %v", a)
		}
	})
}
