package bench

import (
	"testing"

	"headgate/e2e/alerttest"
)

// BenchmarkAlert measures the latency of alerts: from when a value has been above its
// threshold for the hold time until Slack has accepted the message, with an evaluation
// every second. The target is a p99 under 3 s. With -short it sends 2 alerts, else 100.
func BenchmarkAlert(b *testing.B) {
	incidents := 100
	if testing.Short() {
		incidents = 2
	}
	for b.Loop() {
		took := alerttest.Latency{Incidents: incidents}.Run(b)
		b.ReportMetric(alerttest.Quantile(took, 0.5).Seconds(), "p50-s")
		b.ReportMetric(alerttest.Quantile(took, 0.99).Seconds(), "p99-s")
		b.ReportMetric(alerttest.Quantile(took, 1).Seconds(), "most-s")
	}
}
