package loadgen

import (
	"context"
	"time"
)

// clock converts between the wall clock and scenario time.
type clock struct {
	start time.Time
	speed float64
}

// now is the scenario time.
func (c clock) now() time.Duration { return c.toScenario(time.Since(c.start)) }

// until is how long to wait on the wall clock for a scenario time.
func (c clock) until(at time.Duration) time.Duration { return c.toWall(at) - time.Since(c.start) }

func (c clock) toScenario(wall time.Duration) time.Duration {
	return time.Duration(float64(wall) * c.speed)
}

// toWall rounds up, so that nothing is sent before its time.
func (c clock) toWall(scenario time.Duration) time.Duration {
	w := time.Duration(float64(scenario) / c.speed)
	if c.toScenario(w) < scenario {
		w++
	}
	return w
}

// sleep waits on the wall clock; false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
