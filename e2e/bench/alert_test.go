package bench

import (
	"testing"

	"headgate/e2e/alerttest"
)

// BenchmarkAlert measures how soon people are told: from the moment at which a value
// has been over its threshold for long enough until Slack has accepted the message,
// at an interval of 1 s. The aim is a p99 under 3 s.
func BenchmarkAlert(b *testing.B) {
	for b.Loop() {
		took := alerttest.Latency{Incidents: 100}.Run(b)
		b.ReportMetric(alerttest.Quantile(took, 0.5).Seconds(), "p50-s")
		b.ReportMetric(alerttest.Quantile(took, 0.99).Seconds(), "p99-s")
		b.ReportMetric(alerttest.Quantile(took, 1).Seconds(), "most-s")
	}
}
