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
	fastPath      prometheus.Histogram
}

func newGateMetrics(pool string) *gateMetrics {
	f := metricFactory{prometheus.Labels{"pool": pool}, fastPathBuckets()}
	m := &gateMetrics{
		falseRefusals: f.counters("headgate_false_refusals_total", "Tasks that were refused though a second account of the pool would have let them in.", "reason"),
		panics:        f.counter("headgate_gate_panics_total", "Panics in the gate that were caught."),
		fastPath:      f.histogram("headgate_gate_free_seconds", "Time that each call on the gate took, of tasks that found a permit free."),
	}
	for _, r := range []admission.Reason{admission.ReasonQueueAge, admission.ReasonQueueDepth} {
		m.falseRefusals.WithLabelValues(r.String())
	}
	return m
}

// fastPathBuckets are few, with one bound at the second from which on a gate is too
// slow, so that no quantile below it is ever estimated to lie above.
func fastPathBuckets() []float64 {
	return []float64{10e-6, 100e-6, .001, .01, .1, .5, 1, 2, 5, 10, 30}
}

func (m *gateMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.falseRefusals, m.panics, m.fastPath}
}

func (m *gateMetrics) observe(w GateEvent) {
	m.panics.Add(float64(w.Panics))
	if w.FalseRefusal != admission.ReasonNone {
		m.falseRefusals.WithLabelValues(w.FalseRefusal.String()).Inc()
	}
	if w.FastPath {
		m.fastPath.Observe(w.Took.Seconds())
	}
}
