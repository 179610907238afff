package watch

import (
	"testing"

	"headgate/e2e/alerttest"
)

// From the threshold, breached for long enough, to Slack's acceptance. The figures
// are told, not judged, as the machine may be busy: `make bench` measures more.
func TestHowSoonPeopleAreTold(t *testing.T) {
	t.Parallel()
	took := alerttest.Latency{Incidents: 6}.Run(t)
	t.Logf("p50 %v, most %v of %d", alerttest.Quantile(took, 0.5), alerttest.Quantile(took, 1), len(took))
	for _, d := range took {
		if d < 0 {
			t.Errorf("somebody was told %v before it had lasted long enough", -d)
		}
	}
}
