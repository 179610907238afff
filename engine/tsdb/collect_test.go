package tsdb

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Only what begins with headgate_ is kept, histograms in their parts.
func TestCollectKeepsOurFamilies(t *testing.T) {
	reg := prometheus.NewRegistry()
	ours := prometheus.NewGauge(prometheus.GaugeOpts{Name: "headgate_depth", ConstLabels: prometheus.Labels{"pool": "p"}})
	others := prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_depth"})
	hist := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "headgate_x_seconds", Buckets: []float64{1, 2}})
	reg.MustRegister(ours, others, hist)
	ours.Set(3)
	hist.Observe(1.5)
	r := newFixture(t, func(o *Options) { o.Gatherer = reg })
	r.Collect(t.Context(), r.now)
	r.now = r.now.Add(time.Second)
	if got := r.signal(`headgate_depth{pool="p"}`); got != validValue(3) {
		t.Errorf("our gauge: %+v, want 3", got)
	}
	if got := r.signal(`headgate_x_seconds_bucket{le="2"} - on() headgate_x_seconds_bucket{le="1"}`); got != validValue(1) {
		t.Errorf("the second bucket: %+v, want 1", got)
	}
	if got := r.signal(`count({__name__=~".+"})`); got != validValue(6) {
		t.Errorf("series: %+v, want 6: a gauge, three buckets, sum and count", got)
	}
}

type gatherer func() ([]*dto.MetricFamily, error)

func (g gatherer) Gather() ([]*dto.MetricFamily, error) { return g() }

// A collector that fails or panics does not blind the rules on the others.
func TestCollectSurvivesBadCollectors(t *testing.T) {
	reg := prometheus.NewRegistry()
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "headgate_good"})
	reg.MustRegister(g)
	panics := true
	r := newFixture(t, func(o *Options) {
		o.Gatherer = gatherer(func() ([]*dto.MetricFamily, error) {
			if panics {
				panic("a bug")
			}
			all, err := reg.Gather()
			return all, errors.Join(err, errors.New("one of many"))
		})
	})
	r.Collect(t.Context(), r.now)
	panics = false
	r.now = r.now.Add(time.Second)
	r.Collect(t.Context(), r.now)
	r.now = r.now.Add(time.Second)
	if got := r.signal("headgate_good"); got != validValue(0) {
		t.Errorf("got %+v, want 0", got)
	}
}

// Run collects at once and in every interval, and stamps with the clock.
func TestRunCollectsInEveryInterval(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "headgate_x"}, func() float64 { return 1 }))
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(Options{Dir: t.TempDir(), Gatherer: reg, Registerer: reg, Log: newFixtureLog()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); db.Run(ctx) }()
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait()
		n, err := db.QueryInstant(t.Context(), "count_over_time(headgate_x[1m])", db.o.Clock())
		if err != nil || n != 6 {
			t.Errorf("%v samples, error %v; want 6", n, err)
		}
		if n, err = db.QueryInstant(t.Context(), "headgate_samples_series", db.o.Clock()); err != nil || n < 2 {
			t.Errorf("%v series, error %v; want at least 2", n, err)
		}
		cancel()
		<-done
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTwoSamplesOfOneMomentAreOne(t *testing.T) {
	r := newFixture(t, nil)
	r.appendSecond(sample(1, "headgate_x"), sample(2, "headgate_x"))
	if got := r.signal("headgate_x"); got != validValue(1) {
		t.Errorf("got %+v, want the first", got)
	}
}
