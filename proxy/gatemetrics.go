package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"headgate/proxy/admission"
)

// gateMetrics say how the gate of one pool itself fares. Load must not show in
// them: they are what takes a gate out.
type gateMetrics struct {
	falseRefusals *prometheus.CounterVec
	panics        prometheus.Counter
	free          prometheus.Histogram
}

func newGateMetrics(pool string) *gateMetrics {
	f := factory{prometheus.Labels{"pool": pool}, freeBuckets()}
	m := &gateMetrics{
		falseRefusals: f.counters("headgate_false_refusals_total", "Tasks that were refused though a second account of the pool would have let them in.", "reason"),
		panics:        f.counter("headgate_gate_panics_total", "Panics in the gate that were caught."),
		free:          f.histogram("headgate_gate_free_seconds", "Time that each call on the gate took, of tasks that found a permit free."),
	}
	for _, r := range []admission.Reason{admission.ReasonQueueAge, admission.ReasonQueueDepth} {
		m.falseRefusals.WithLabelValues(r.String())
	}
	return m
}

// freeBuckets are few, with one bound at the second from which on a gate is too
// slow, so that no quantile below it is ever estimated to lie above.
func freeBuckets() []float64 {
	return []float64{10e-6, 100e-6, .001, .01, .1, .5, 1, 2, 5, 10, 30}
}

func (m *gateMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.falseRefusals, m.panics, m.free}
}

func (m *gateMetrics) decided(w GateWork) {
	m.panics.Add(float64(w.Panics))
	if w.False != admission.ReasonNone {
		m.falseRefusals.WithLabelValues(w.False.String()).Inc()
	}
	if w.Free {
		m.free.Observe(w.Took.Seconds())
	}
}
