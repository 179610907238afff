package alerttest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"headgate/e2e/harness"
)

// Latency measures how long it takes until people are told.
type Latency struct {
	Incidents int // one after the other
}

const (
	spacing     = 3  // seconds between two incidents: Slack takes one post a second
	startupTime = 20 // seconds within which the gate surely has started
	holdTime    = 5 * time.Second
)

// Run returns, for each incident, the time from the moment at which its value had
// been over the threshold for long enough until Slack had accepted the message.
func (l Latency) Run(t testing.TB) []time.Duration {
	t.Helper()
	slack := StartSlack(t, 1)
	dir := t.TempDir()
	harness.Binary(t) // may have to be built
	first := time.Now().Unix() + startupTime
	setup := Options{}
	for n := range l.Incidents {
		setup.Rules = append(setup.Rules, Rule{
			Name: fmt.Sprintf("alarm_%d", n), Page: 1, Below: 1, ClearFor: "10m",
			// A tenth of a second later each, so that all parts of an interval are met.
			Signal: fmt.Sprintf(`clamp_min(headgate_workers{pool="$pool"} * 0, 0) + (time() >= bool %.3f)`, crossingTime(first, n)),
		})
	}
	setup.WriteSettings(t, dir, slack)
	d := Start(t, dir, slack)
	d.AwaitEvaluations(t, 1)
	if now := time.Now().Unix(); now >= first {
		t.Fatalf("the gate took more than %d s to start: nothing can be measured", startupTime)
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

// crossingTime is when the n-th value goes over its threshold, in Unix seconds.
func crossingTime(first int64, n int) float64 {
	return float64(first) + float64(n)*spacing + float64(n%10)/10
}

// Quantile returns the q-quantile of some durations.
func Quantile(ds []time.Duration, q float64) time.Duration {
	ds = slices.Sorted(slices.Values(ds))
	return ds[max(int(math.Ceil(q*float64(len(ds))))-1, 0)]
}
