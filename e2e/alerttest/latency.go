package alerttest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/testkit"
)

// Latency measures the time until an alert is sent.
type Latency struct {
	Incidents int // one after the other
}

const (
	spacing  = 3 // seconds between two incidents: Slack takes one post a second
	holdTime = 5 * time.Second
)

// startupTime is how long the start of the gate may take.
var startupTime = testkit.Timeout(20 * time.Second)

// Run returns, for each incident, the time from when its value had been above the threshold
// for the hold time until Slack accepted the message.
func (l Latency) Run(t testing.TB) []time.Duration {
	t.Helper()
	slack := StartSlack(t, 1)
	dir := t.TempDir()
	harness.Binary(t) // build it before the clock starts
	first := time.Now().Add(startupTime).Unix()
	setup := Options{}
	for n := range l.Incidents {
		setup.Rules = append(setup.Rules, Rule{
			Name: fmt.Sprintf("alarm_%d", n), Page: 1, Below: 1, ClearFor: "10m",
			// Each a tenth of a second later within its second, to cover the evaluation interval.
			Signal: fmt.Sprintf(`clamp_min(headgate_workers{pool="$pool"} * 0, 0) + (time() >= bool %.3f)`, crossingTime(first, n)),
		})
	}
	setup.WriteSettings(t, dir, slack)
	d := Start(t, dir, slack)
	d.AwaitEvaluations(t, 1)
	if now := time.Now().Unix(); now >= first {
		t.Fatalf("the gate took more than %s to start, so no latency can be measured", startupTime)
	}
	var took []time.Duration
	for n := range l.Incidents {
		i := d.AwaitFiring(t, fmt.Sprintf("alarm_%d", n), "page")
		d.AwaitSettled(t, i.ID)
		root, _ := slack.OnlyPost(t, PageChannel, i.ID)
		var seconds float64
		if _, err := fmt.Sscan(root.TS, &seconds); err != nil {
			t.Fatal(err)
		}
		due := crossingTime(first, n) + holdTime.Seconds()
		took = append(took, time.Duration((seconds-due)*float64(time.Second)).Round(time.Millisecond))
	}
	return took
}

// crossingTime returns when the n-th value exceeds its threshold, in Unix seconds.
func crossingTime(first int64, n int) float64 {
	return float64(first) + float64(n)*spacing + float64(n%10)/10
}

// Quantile returns the q-quantile of some durations.
func Quantile(ds []time.Duration, q float64) time.Duration {
	ds = slices.Sorted(slices.Values(ds))
	return ds[max(int(math.Ceil(q*float64(len(ds))))-1, 0)]
}
