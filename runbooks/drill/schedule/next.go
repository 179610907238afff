package schedule

import (
	"fmt"
	"time"
)

// Occurrence is one time at which a drill is due.
type Occurrence struct {
	At      time.Time // UTC
	Nominal time.Time // the date and time that the schedule names, as if it were UTC
	// Shifted: the zone has no such time that day, since the clocks go forward over
	// it. Repeated: it has it twice, and this is the first.
	Shifted, Repeated bool
}

// ClockChangeNote says for people what the clocks do to it; empty for most.
func (o Occurrence) ClockChangeNote(loc *time.Location) string {
	switch {
	case o.Shifted:
		return fmt.Sprintf("the clocks go forward over %s, so it runs at %s",
			o.Nominal.Format("15:04"), o.At.In(loc).Format("15:04"))
	case o.Repeated:
		return fmt.Sprintf("the clocks go back over %s, so it runs the first time", o.Nominal.Format("15:04"))
	default:
		return ""
	}
}

// horizonYears is how far ahead an occurrence is looked for: 29 February can be eight
// years away.
const horizonYears = 9

// Next returns the first occurrence after an instant. False: there is none.
func (s Schedule) Next(after time.Time) (Occurrence, bool) {
	switch {
	case s.every > 0:
		at := after.UTC().Add(s.every)
		return Occurrence{At: at, Nominal: at}, true
	case s.cron == nil:
		return Occurrence{}, false
	case s.runsInRepeatedHour:
		return s.nextWithRepeats(after)
	}
	named := asUTC(after.In(s.loc)).Truncate(time.Minute)
	last := named.AddDate(horizonYears, 0, 0)
	for {
		var ok bool
		if named, ok = s.nextNominal(named.Add(time.Minute), last); !ok {
			return Occurrence{}, false
		}
		// Times that the clocks go back over are named once, and may be past.
		if o := s.occurrence(named); o.At.After(after) {
			return s.preferUnshifted(o, last), true
		}
	}
}

// NextN returns the next n occurrences, or as many as there are.
func (s Schedule) NextN(after time.Time, n int) []Occurrence {
	var all []Occurrence
	for len(all) < n {
		o, ok := s.Next(after)
		if !ok {
			break
		}
		all = append(all, o)
		after = o.At
	}
	return all
}

// preferUnshifted prefers, of the times that come at one moment, the one that is not
// shifted: */15 runs at 03:00 whatever the clocks skip before.
func (s Schedule) preferUnshifted(o Occurrence, last time.Time) Occurrence {
	if !o.Shifted {
		return o
	}
	local := asUTC(o.At.In(s.loc))
	if named, ok := s.nextNominal(local, last); ok && named.Equal(local) {
		return Occurrence{At: o.At, Nominal: named}
	}
	return o
}

// Period is the time between the next two occurrences after an instant; 0: there
// are no two.
func (s Schedule) Period(after time.Time) time.Duration {
	two := s.NextN(after, 2)
	if len(two) < 2 {
		return 0
	}
	return two[1].At.Sub(two[0].At)
}

// everFires says whether there is any date that it names.
func (s Schedule) everFires() bool {
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, ok := s.nextNominal(from, from.AddDate(horizonYears, 0, 0))
	return ok
}

// nextNominal returns the first time from t on that the fields name, on a calendar
// without zones.
func (s Schedule) nextNominal(t, last time.Time) (time.Time, bool) {
	for !t.After(last) {
		switch {
		case !has(s.cron.Month, int(t.Month())):
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.matchesDay(t):
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case !has(s.cron.Hour, t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !has(s.cron.Minute, t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

// starBit is how the parser marks a field that is not restricted.
const starBit = 1 << 63

func (s Schedule) matchesDay(t time.Time) bool {
	dom, dow := has(s.cron.Dom, t.Day()), has(s.cron.Dow, int(t.Weekday()))
	if s.cron.Dom&starBit != 0 || s.cron.Dow&starBit != 0 {
		return dom && dow
	}
	return dom || dow
}

func has(set uint64, n int) bool { return set&(1<<uint(n)) != 0 }

// asUTC returns what a clock on the wall shows, as if it were one in UTC.
func asUTC(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// maxZoneOffset is more than any zone is away from UTC.
const maxZoneOffset = 26 * time.Hour

// occurrence finds the first instant at which the clock on the wall shows the named
// time, or a later one if it never shows that.
func (s Schedule) occurrence(named time.Time) Occurrence {
	o := Occurrence{Nominal: named}
	for at := named.Add(-maxZoneOffset); ; {
		start, end := at.In(s.loc).ZoneBounds()
		_, offset := at.In(s.loc).Zone()
		shows := named.Add(-time.Duration(offset) * time.Second)
		switch {
		case !end.IsZero() && !shows.Before(end): // after these
		case !o.At.IsZero():
			o.Repeated = !shows.Before(start)
			return o
		case !start.IsZero() && shows.Before(start):
			o.At, o.Shifted = start.UTC(), true
			return o
		default:
			o.At = shows.UTC()
		}
		if end.IsZero() || end.After(named.Add(maxZoneOffset)) {
			return o
		}
		at = end
	}
}

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
