package drill

import "time"

// nextWithRepeats is Next for schedules that go on while the clocks show an hour again:
// it goes through the stretches between changes of clocks, one after the other.
func (s Schedule) nextWithRepeats(after time.Time) (Occurrence, bool) {
	last := after.AddDate(horizonYears, 0, 0)
	from := asUTC(after.In(s.loc)).Truncate(time.Minute).Add(time.Minute)
	for at := after; at.Before(last); {
		_, end := at.In(s.loc).ZoneBounds()
		if end.IsZero() || end.After(last) {
			end = last
		}
		ahead := s.utcOffset(at)
		until := end.UTC().Add(ahead) // on the wall
		if named, ok := s.nextNominal(from, until.Add(-1)); ok {
			return Occurrence{At: named.Add(-ahead), Nominal: named}, true
		}
		onward := end.UTC().Add(s.utcOffset(end))
		if o, ok := s.skippedByClock(until, onward); ok {
			o.At = end.UTC()
			return o, true
		}
		at, from = end, ceilMinute(onward)
	}
	return Occurrence{}, false
}

// utcOffset is how far the clocks of the zone are ahead of UTC.
func (s Schedule) utcOffset(t time.Time) time.Duration {
	_, offset := t.In(s.loc).Zone()
	return time.Duration(offset) * time.Second
}

// skippedByClock finds what the clocks go over when they are put forward. What comes at
// that moment by its own name is not shifted, and one of every hour does not wait
// for what it has lost.
func (s Schedule) skippedByClock(from, to time.Time) (Occurrence, bool) {
	if s.hourly || !to.After(from) {
		return Occurrence{}, false
	}
	named, ok := s.nextNominal(ceilMinute(from), to.Add(-1))
	if own, is := s.nextNominal(to, to); !ok || is && own.Equal(to) {
		return Occurrence{}, false
	}
	return Occurrence{Nominal: named, Shifted: true}, true
}

// ceilMinute is the first whole minute from t on.
func ceilMinute(t time.Time) time.Time { return t.Add(time.Minute - 1).Truncate(time.Minute) }
