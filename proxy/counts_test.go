package proxy

import (
	dto "github.com/prometheus/client_model/go"
)

// metricFamily returns the samples of one metric, nil if there is none.
func (r *testProxy) metricFamily(name string) []*dto.Metric {
	r.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

// sum adds a counter or gauge up over all samples that carry the given labels,
// which come in pairs.
func (r *testProxy) sum(name string, labels ...string) float64 {
	r.Helper()
	total := 0.0
	for _, m := range r.metricFamily(name) {
		if hasLabels(m, labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func hasLabels(m *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// countedTasks returns arrivals and outcomes, over all pools.
func (r *testProxy) countedTasks() (arrivals, outcomes int) {
	r.Helper()
	return int(r.sum("headgate_arrivals_total")), int(r.sum("headgate_tasks_total"))
}
