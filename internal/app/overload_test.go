package app

import (
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
	"headgate/proxy/admission"
)

// Ten minutes of seven times the load that the workers can serve, at forty times the speed: the gate refuses most
// requests, no refusal is reported as false, and no rollback happens.
func TestTenMinutesOfOverload(t *testing.T) {
	t.Parallel()
	const speed, workers, mean = 40, 4, 17.5 // s
	service, err := modelstub.ParseService("uniform:5s-30s")
	if err != nil {
		t.Fatal(err)
	}
	stub, err := modelstub.New(modelstub.Config{Service: service, Speed: speed})
	if err != nil {
		t.Fatal(err)
	}
	defer stub.Close()
	upstream := httptest.NewServer(stub)
	defer upstream.Close()
	r := newFixture(t, func(c *config.Config) {
		pool := &c.Pools[0]
		pool.Upstream, pool.Workers = upstream.URL+"/v1", workers
		pool.SLO.Turnaround, pool.Admission.MaxQueueAge = time.Minute/speed, 25*time.Second/speed
	}, TimeScale(speed))
	arrivals, err := loadgen.Poisson(7*workers/mean, 10*time.Minute, 1)
	if err != nil {
		t.Fatal(err)
	}
	report, err := loadgen.Run(t.Context(), loadgen.Config{URL: "http://" + r.app.DataAddr(), Speed: speed, SLO: time.Minute}, arrivals.Source())
	if err != nil {
		t.Fatal(err)
	}
	if report.Refusals < report.Arrivals/2 {
		t.Errorf("%d of %d refused: that was no overload", report.Refusals, report.Arrivals)
	}
	for _, name := range []string{"headgate_false_refusals_total", "headgate_gate_panics_total"} {
		if n := r.metricTotal(name); n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	if n := r.metricTotal("headgate_gate_free_seconds"); n == 0 {
		t.Error("no task found a worker free: nothing was measured")
	}
	if guard, flips := r.app.record.autoRollback.State("default"); r.mode() != admission.Enforce || flips != 0 {
		t.Errorf("mode %s, guard %+v", r.mode(), guard)
	}
	for _, i := range r.app.monitor.engine.Incidents() {
		if i.Action != "" {
			t.Errorf("incident of %s, which has an action", i.Key.Rule)
		}
	}
}

// metricTotal is the sum of all samples of a metric; of a histogram it counts the
// observations. A metric that is not there is not a number.
func (r *fixture) metricTotal(name string) float64 {
	r.Helper()
	families, err := r.app.Metrics().Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		return sum
	}
	return math.NaN()
}
