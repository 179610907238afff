package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// punctualWithin is how late a run still counts as one by its schedule: the loop looks only twice a minute.
const punctualWithin = time.Minute

// maxMissedCounted bounds how many missed occurrences are counted one by one.
const maxMissedCounted = 100_000

// PlannedAction is what to do about one drill at one moment, in this order: missed occurrences are recorded, a run is
// begun, the next due time is stored.
type PlannedAction struct {
	Spec   drill.Spec
	Run    drill.Trigger // empty: no run is begun
	At     Occurrence    // of the run
	Delay  time.Duration
	Missed MissedOccurrences
	Next   drill.DueTime // to be stored
	Delete bool          // the stored due time of Spec.ID is deleted instead
}

// MissedOccurrences are those that passed while nothing ran.
type MissedOccurrences struct {
	Count       int // 0: none
	First, Last time.Time
	Truncated   bool // there were more, which were not counted
}

func (m *MissedOccurrences) add(at time.Time) {
	if m.Count++; m.Count == 1 {
		m.First = at
	}
	m.Last = at
}

// Plan says what to do at an instant: which drills are due, and which occurrences have been missed, in the order of due
// times.
//
// A schedule that is new, or has been changed, counts from now on. An occurrence that is late runs once if it is within
// Spec.CatchUp, and only the latest does; all others are missed. When the wall clock has gone back, due times are
// computed again: the store prevents a second run of an occurrence.
func Plan(now time.Time, specs []drill.Spec, dues map[string]drill.DueTime) []PlannedAction {
	var all []PlannedAction
	wanted := make(map[string]bool, len(specs))
	for _, s := range specs {
		schedule, err := ParseSchedule(s.Schedule, s.Zone)
		if s.Schedule == "" || err != nil { // invalid ones were refused with the settings
			continue
		}
		wanted[s.ID] = true
		if a, ok := plan(now, s, schedule, dues[s.ID]); ok {
			all = append(all, a)
		}
	}
	for id := range dues {
		if !wanted[id] {
			all = append(all, PlannedAction{Spec: drill.Spec{ID: id}, Delete: true})
		}
	}
	slices.SortFunc(all, func(a, b PlannedAction) int {
		return cmp.Or(a.At.At.Compare(b.At.At), cmp.Compare(a.Spec.ID, b.Spec.ID))
	})
	return all
}

// plan decides about one drill; false: there is nothing to do.
func plan(now time.Time, s drill.Spec, schedule Schedule, kept drill.DueTime) (PlannedAction, bool) {
	next, ok := schedule.Next(now)
	if !ok { // not after ParseSchedule
		return PlannedAction{}, false
	}
	due := drill.DueTime{Drill: s.ID, Schedule: schedule.text, Zone: schedule.zone, Next: next.At}
	a := PlannedAction{Spec: s, Next: due}
	switch {
	case kept.Schedule != schedule.text || kept.Zone != schedule.zone || kept.Next.IsZero():
		return a, true
	case kept.Next.After(next.At): // the clock was ahead when it was kept
		return a, true
	case kept.Next.After(now):
		return PlannedAction{}, false
	}
	a.At, a.Missed = schedule.occurrencesSince(kept.Next, now, max(s.CatchUp, punctualWithin))
	if schedule.every > 0 { // its phase stays
		a.Next.Next = kept.Next.Add((now.Sub(kept.Next)/schedule.every + 1) * schedule.every)
	}
	if a.At.At.IsZero() {
		return a, true
	}
	a.Run = drill.BySchedule
	if a.Delay = now.Sub(a.At.At); a.Delay > punctualWithin {
		a.Run = drill.ByCatchUp
	}
	return a, true
}

// occurrencesSince goes through the occurrences from the stored one to now. The latest can still run if it is not older
// than window; the others are missed.
func (s Schedule) occurrencesSince(kept, now time.Time, window time.Duration) (Occurrence, MissedOccurrences) {
	var latest Occurrence
	var missed MissedOccurrences
	if n := int(now.Sub(kept) / max(s.every, 1)); s.every > 0 {
		latest.At = kept.Add(time.Duration(n) * s.every).UTC()
		latest.Nominal = latest.At
		if n > 0 {
			missed = MissedOccurrences{Count: n, First: kept, Last: latest.At.Add(-s.every)}
		}
	} else {
		for o, ok := s.Next(kept.Add(-1)); ok && !o.At.After(now); o, ok = s.Next(o.At) {
			if missed.Count == maxMissedCounted {
				latest, missed.Truncated = s.latestWithin(now, window), true
				break
			}
			if !latest.At.IsZero() {
				missed.add(latest.At)
			}
			latest = o
		}
	}
	if !latest.At.IsZero() && now.Sub(latest.At) > window {
		missed.add(latest.At)
		latest = Occurrence{}
	}
	return latest, missed
}

// latestWithin finds the last occurrence within the window; its zero value if there is none.
func (s Schedule) latestWithin(now time.Time, window time.Duration) (latest Occurrence) {
	for o, ok := s.Next(now.Add(-window)); ok && !o.At.After(now); o, ok = s.Next(o.At) {
		latest = o
	}
	return latest
}

// reason says in a line what was missed.
func (m MissedOccurrences) reason() string {
	count := fmt.Sprint(m.Count)
	if m.Truncated {
		count = "more than " + count
	}
	if m.Count == 1 {
		return "its time passed while nothing ran: " + format.Minute(m.Last)
	}
	return fmt.Sprintf("%s times passed while nothing ran, from %s to %s",
		count, format.Minute(m.First), format.Minute(m.Last))
}

// Upcoming returns the next n occurrences of a drill, the stored one first. A drill without a valid schedule has none.
func Upcoming(s drill.Spec, kept drill.DueTime, now time.Time, n int) []Occurrence {
	schedule, err := ParseSchedule(s.Schedule, s.Zone)
	if err != nil || n < 1 {
		return nil
	}
	if schedule.every > 0 && kept.Schedule == schedule.text && kept.Next.After(now) {
		first := Occurrence{At: kept.Next.UTC(), Nominal: kept.Next.UTC()}
		return append([]Occurrence{first}, schedule.NextN(kept.Next, n-1)...)
	}
	return schedule.NextN(now, n)
}
