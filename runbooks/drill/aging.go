package drill

import "time"

// Overdue says whether a pass is too old to rely on: more than one and a half
// periods of its schedule have gone by since. A drill that never passed is expired
// when it has been known for as long. A period of 0, as without a schedule, never
// expires anything.
func Overdue(now, lastPass, known time.Time, period time.Duration) bool {
	if period <= 0 {
		return false
	}
	since := lastPass
	if since.IsZero() {
		since = known
	}
	return !since.IsZero() && now.Sub(since) > period+period/2
}
