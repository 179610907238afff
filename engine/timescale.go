package engine

import (
	"fmt"
	"math"
	"time"
)

const (
	maxTimeScale = 1000
	// minInterval is the shortest time between two evaluations: a small machine does nothing else below it.
	minInterval = 50 * time.Millisecond
	// minMissingGrace is how long a signal may be missing at any scale: a machine that is busy for a moment is no part
	// of a scenario.
	minMissingGrace = 10 * time.Second
	// minScaledEvaluations fit into every duration that is scaled.
	minScaledEvaluations = 5
)

// TimeScale is how many times faster than real time a scenario is played, 1 to 1000. Durations are divided by it,
// with minimums that keep them meaningful, so that a high scale makes some of them longer than the scenario asks
// for. 0 and 1 mean real time.
type TimeScale float64

// RealTime says whether nothing is scaled.
func (s TimeScale) RealTime() bool { return s == 0 || s == 1 }

// Validate says whether the scale is possible.
func (s TimeScale) Validate() error {
	if v := float64(s); v != 0 && !(v >= 1 && v <= maxTimeScale) {
		return fmt.Errorf("the time scale must be 1 to %d, is %v", maxTimeScale, v)
	}
	return nil
}

// Scale divides a duration, and keeps it at or above least. The result is in whole milliseconds, as PromQL has them.
func (s TimeScale) Scale(d, least time.Duration) time.Duration {
	if s.RealTime() || d <= 0 {
		return d
	}
	scaled := time.Duration(math.Round(float64(d)/float64(s))) / time.Millisecond * time.Millisecond
	return max(scaled, min(least, d))
}

// Interval scales the time between two evaluations.
func (s TimeScale) Interval(d time.Duration) time.Duration { return s.Scale(d, minInterval) }

// Least is the shortest scaled duration if rules are evaluated every interval in real time.
func (s TimeScale) Least(interval time.Duration) time.Duration {
	return minScaledEvaluations * s.Interval(interval)
}

// Config scales the durations of an engine that evaluates every interval in real time. Those that depend on people or
// disks stay.
func (s TimeScale) Config(c Config, interval time.Duration) Config {
	c.Interval = s.Interval(interval)
	for _, d := range []*time.Duration{&c.IdleClose, &c.ReopenWindow, &c.Flap.Window, &c.Flap.Digest, &c.Remind.Warn, &c.Remind.Page} {
		*d = s.Scale(*d, s.Least(interval))
	}
	c.MissingGrace = s.Scale(c.MissingGrace, minMissingGrace)
	return c
}
