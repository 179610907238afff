package alerts

import "time"

// Backoff spaces attempts: the n-th wait is drawn evenly from zero to Base·2ⁿ, at
// most Max ("full jitter", Marc Brooker, "Exponential Backoff And Jitter", 2015).
type Backoff struct {
	Base, Max time.Duration
}

// delay returns the pause after so many failed attempts; r is from [0, 1).
func (b Backoff) delay(attempts int, r float64) time.Duration {
	ceiling := b.Base
	for i := 1; i < attempts && ceiling < b.Max; i++ {
		ceiling *= 2
	}
	return time.Duration(r * float64(min(ceiling, b.Max)))
}
