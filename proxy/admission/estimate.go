package admission

import (
	"math"
	"time"
)

// estimateWindow is the number of served tasks that the service estimate covers.
const estimateWindow = 64

// service is a running estimate of how long served tasks hold their permits: mean
// and variance with exponential weights, plain averages until estimateWindow tasks
// have been served.
type service struct {
	n        int
	mean     float64 // seconds
	variance float64 // seconds squared
}

func (s *service) observe(d time.Duration) {
	if s.n < estimateWindow {
		s.n++
	}
	w := 1 / float64(s.n)
	diff := d.Seconds() - s.mean
	s.mean += w * diff
	s.variance = (1 - w) * (s.variance + w*diff*diff)
}

func (s *service) estimate() Service {
	return Service{
		Measured: s.n > 0,
		Mean:     seconds(s.mean),
		StdDev:   seconds(math.Sqrt(s.variance)),
	}
}

// Service describes how long one task holds a permit.
type Service struct {
	Measured bool // false: Mean is the configured assumption
	Mean     time.Duration
	StdDev   time.Duration
}

// seconds returns s as a duration, or the longest duration: an overflowing
// conversion would return a negative one.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}
