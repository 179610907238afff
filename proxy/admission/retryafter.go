package admission

import "time"

// Bounds of Retry-After. Every known client obeys 1 to 59: 0 makes some retry at
// once, 60 or more makes others ignore it or give up.
const (
	minRetry       = time.Second
	maxRetry       = 59 * time.Second
	maxProjection  = 45 * time.Second // longer projections count as this one
	minRetrySpread = 2 * time.Second  // the shortest projection is spread over this time
)

// retryAfter turns a projected wait into a Retry-After: whole seconds, never
// before the projection (as far as the cap allows), spread upwards by a third of
// it, so that callers refused together do not return together. From 45 s on, that
// is 45 to 59 s.
func retryAfter(wait time.Duration, jitterSeed uint64) time.Duration {
	wait = min(max(wait, 0), maxProjection)
	low := max(ceilSecond(wait), minRetry)
	high := min(ceilSecond(wait+max(wait/3, minRetrySpread)), maxRetry)
	choices := uint64((high-low)/time.Second) + 1
	return low + time.Duration(splitMix64(jitterSeed)%choices)*time.Second
}

func ceilSecond(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// splitMix64 spreads neighbouring numbers over all 64 bits (the finaliser of
// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014).
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
