package schedule

import (
	"fmt"
	"time"
)

// Occurrence is one time at which a drill is due.
type Occurrence struct {
	At      time.Time // UTC
	Nominal time.Time // the date and time that the schedule names, as if it were UTC
	// Shifted: the zone has no such time that day, since the clocks go forward over it. Repeated: the zone has it
	// twice, and this is the first.
	Shifted, Repeated bool
}

// ClockChangeNote says for people how a clock change affects the occurrence; empty: not at all.
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

// horizonYears is how far ahead an occurrence is looked for: 29 February can be eight years away.
const horizonYears = 9

// maxZoneOffset is more than any zone is away from UTC.
const maxZoneOffset = 26 * time.Hour

// Next returns the first occurrence after an instant. False: there is none.
//
// It goes through the stretches of time between clock changes. In each of them local time is UTC plus a fixed offset,
// and named times are looked for on a calendar without zones.
func (s Schedule) Next(after time.Time) (Occurrence, bool) {
	switch {
	case s.every > 0:
		at := after.UTC().Add(s.every)
		return Occurrence{At: at, Nominal: at}, true
	case s.cron == nil:
		return Occurrence{}, false
	}
	at, last := after, after.AddDate(horizonYears, 0, 0)
	if !s.runsInRepeatedHour {
		at = after.Add(-maxZoneOffset) // a clock change before after may repeat times after it
	}
	var shown time.Time // local time; what is named before it has occurred, unless it occurs again
	for at.Before(last) {
		_, end := at.In(s.loc).ZoneBounds()
		if end.IsZero() || end.After(last) {
			end = last
		}
		offset := s.utcOffset(at)
		before, behind := end.UTC().Add(offset), end.UTC().Add(s.utcOffset(end)) // local time at the change
		if named, ok := s.namedIn(later(later(at, after.Add(1)).UTC().Add(offset), shown), before); ok {
			repeated := !s.runsInRepeatedHour && !named.Before(behind)
			return Occurrence{At: named.Add(-offset), Nominal: named, Repeated: repeated}, true
		}
		if skipped, ok := s.namedIn(later(before, shown), behind); ok && !s.hourly && end.After(after) {
			if _, own := s.namedIn(behind, behind.Add(1)); !own {
				return Occurrence{At: end.UTC(), Nominal: skipped, Shifted: true}, true
			}
		}
		if at = end; !s.runsInRepeatedHour {
			shown = later(shown, before)
		}
	}
	return Occurrence{}, false
}

// namedIn returns the first time from from to to (not included) that the fields name, on a calendar without zones.
func (s Schedule) namedIn(from, to time.Time) (time.Time, bool) {
	for from.Before(to) {
		if t := s.cron.Next(from.Add(-1)); !t.IsZero() {
			return t, t.Before(to)
		}
		from = from.AddDate(4, 0, 0) // the parser's Next looks five years ahead
	}
	return time.Time{}, false
}

// utcOffset is how far the clocks of the zone are ahead of UTC.
func (s Schedule) utcOffset(t time.Time) time.Duration {
	_, offset := t.In(s.loc).Zone()
	return time.Duration(offset) * time.Second
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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

// Period is the time between the next two occurrences after an instant; 0: there are no two.
func (s Schedule) Period(after time.Time) time.Duration {
	two := s.NextN(after, 2)
	if len(two) < 2 {
		return 0
	}
	return two[1].At.Sub(two[0].At)
}

// everFires says whether any date is named.
func (s Schedule) everFires() bool {
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, ok := s.namedIn(from, from.AddDate(horizonYears, 0, 0))
	return ok
}
