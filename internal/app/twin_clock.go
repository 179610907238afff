package app

import (
	"sync/atomic"
	"time"
)

// scenarioClock turns the wall clock into the time of a scenario.
type scenarioClock struct {
	speed float64
	zero  atomic.Pointer[time.Time] // nil before the load begins
}

// at is the scenario time of an instant; 0 before the load begins.
func (c *scenarioClock) at(t time.Time) time.Duration {
	zero := c.zero.Load()
	if zero == nil || t.IsZero() {
		return 0
	}
	return time.Duration(float64(t.Sub(*zero)) * c.speed)
}

// wall is how long a stretch of the scenario takes.
func (c *scenarioClock) wall(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.speed)
}
