//go:build proof

package app

import (
	"testing"
	"testing/synctest"
	"time"
)

// A week of a coding service's recording, repeated, with enough workers, barely
// enough, and too few: the alerts that on-call would get. docs/alerting.md has
// the figures.
func TestWeekOfCode(t *testing.T) {
	const week = 7 * 24 * time.Hour
	arrivals := repeatTrace(t, week)
	for _, c := range []struct {
		name         string
		workers      int
		posts, pings int // at most
	}{{"32 workers", 32, 0, 0}, {"16 workers", 16, 14, 0}, {"8 workers", 8, 21, 7}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := replay{length: week, workers: c.workers, arrivals: arrivals, interval: 5 * time.Second}.run(t)
				t.Log(a)
				if a.messages > c.posts || a.notifications > c.pings || a.tasks == 0 {
					t.Errorf("a week came to %v, want at most %d messages and %d pings", a, c.posts, c.pings)
				}
			})
		})
	}
}
