package watch

import (
	"testing"

	"headgate/e2e/alerttest"
)

// Measures the latency from the end of a rule's hold time until Slack accepts the message. The
// times are logged and have no limit: the machine may be busy. `make bench` measures more.
func TestAlertLatency(t *testing.T) {
	t.Parallel()
	took := alerttest.Latency{Incidents: 6}.Run(t)
	t.Logf("p50 %v, most %v of %d", alerttest.Quantile(took, 0.5), alerttest.Quantile(took, 1), len(took))
	for _, d := range took {
		if d < 0 {
			t.Errorf("the alert was sent %v before the end of the hold time", -d)
		}
	}
}
