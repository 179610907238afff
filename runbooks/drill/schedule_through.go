package drill

import "time"

// nextThrough is Next for schedules that go on while the clocks show an hour again:
// it goes through the stretches between changes of clocks, one after the other.
func (s Schedule) nextThrough(after time.Time) (Occurrence, bool) {
	last := after.AddDate(horizon, 0, 0)
	from := asUTC(after.In(s.loc)).Truncate(time.Minute).Add(time.Minute)
	for at := after; at.Before(last); {
		_, end := at.In(s.loc).ZoneBounds()
		if end.IsZero() || end.After(last) {
			end = last
		}
		ahead := s.ahead(at)
		until := end.UTC().Add(ahead) // on the wall
		if named, ok := s.nextNamed(from, until.Add(-1)); ok {
			return Occurrence{At: named.Add(-ahead), Named: named}, true
		}
		onward := end.UTC().Add(s.ahead(end))
		if o, ok := s.skipped(until, onward); ok {
			o.At = end.UTC()
			return o, true
		}
		at, from = end, upToMinute(onward)
	}
	return Occurrence{}, false
}

// ahead is how far the clocks of the zone are ahead of UTC.
func (s Schedule) ahead(t time.Time) time.Duration {
	_, offset := t.In(s.loc).Zone()
	return time.Duration(offset) * time.Second
}

// skipped finds what the clocks go over when they are put forward. What comes at
// that moment by its own name is not shifted, and one of every hour does not wait
// for what it has lost.
func (s Schedule) skipped(from, to time.Time) (Occurrence, bool) {
	if s.hourly || !to.After(from) {
		return Occurrence{}, false
	}
	named, ok := s.nextNamed(upToMinute(from), to.Add(-1))
	if own, is := s.nextNamed(to, to); !ok || is && own.Equal(to) {
		return Occurrence{}, false
	}
	return Occurrence{Named: named, Shifted: true}, true
}

// upToMinute is the first whole minute from t on.
func upToMinute(t time.Time) time.Time { return t.Add(time.Minute - 1).Truncate(time.Minute) }
