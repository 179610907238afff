package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// punctualWithin is how late a run still counts as one by its schedule: a loop that looks
// twice a minute is no more punctual than that.
const punctualWithin = time.Minute

// maxMissedCounted bounds how many occurrences that were missed are counted one by one.
const maxMissedCounted = 100_000

// PlannedAction is what is to be done about one drill at one moment, in this order: what
// was missed is noted, a run is begun, the next due time is kept.
type PlannedAction struct {
	Spec   drill.Spec
	Run    drill.Trigger // empty: nothing is begun
	At     Occurrence    // of the run
	Delay  time.Duration
	Missed MissedOccurrences
	Next   drill.DueTime // to be kept; its Next is zero if there is nothing to keep
	Delete bool          // what is kept of Spec.ID is to be forgotten
}

// dueAfterMissed is what is due once that which was missed has been noted.
func (a PlannedAction) dueAfterMissed() drill.DueTime {
	d := a.Next
	if a.Run != "" {
		d.Next = a.At.At
	}
	return d
}

// MissedOccurrences are those that came while nothing ran.
type MissedOccurrences struct {
	Count       int // 0: nothing
	First, Last time.Time
	Truncated   bool // there were more, which nobody counted
}

// Plan says what to do at an instant: which drills are due, and what has been
// missed. Its order is that in which they were due.
//
// A schedule that is new, or has been changed, counts from now on. An occurrence
// that is late runs once if it is within Spec.CatchUp, and only the latest does;
// all others are missed. When the wall clock has gone back, due times are reckoned
// anew: whoever begins a run makes sure that no occurrence gets a second one.
func Plan(now time.Time, specs []drill.Spec, dues map[string]drill.DueTime) []PlannedAction {
	var all []PlannedAction
	wanted := make(map[string]bool, len(specs))
	for _, s := range specs {
		schedule, err := ParseSchedule(s.Schedule, s.Zone)
		if s.Schedule == "" || err != nil { // one that cannot be read has been refused where it was set
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

// plan decides about one drill; false: nothing is to be done.
func plan(now time.Time, s drill.Spec, schedule Schedule, kept drill.DueTime) (PlannedAction, bool) {
	next, ok := schedule.Next(now)
	if !ok { // not after ParseSchedule
		return PlannedAction{}, false
	}
	a := PlannedAction{Spec: s, Next: drill.DueTime{Drill: s.ID, Schedule: schedule.text, Zone: schedule.zone, Next: next.At}}
	switch {
	case kept.Schedule != schedule.text || kept.Zone != schedule.zone || kept.Next.IsZero():
		return a, true
	case kept.Next.After(next.At): // the clock was ahead when it was kept
		return a, true
	case kept.Next.After(now):
		return PlannedAction{}, false
	}
	latest, missed := schedule.occurrencesSince(kept.Next, now, max(s.CatchUp, punctualWithin))
	if schedule.every > 0 { // its phase stays
		a.Next.Next = kept.Next.Add((now.Sub(kept.Next)/schedule.every + 1) * schedule.every)
	}
	a.Missed = missed
	if latest.At.IsZero() {
		return a, true
	}
	a.At, a.Delay, a.Run = latest, now.Sub(latest.At), drill.BySchedule
	if a.Delay > punctualWithin {
		a.Run = drill.ByCatchUp
	}
	return a, true
}

// occurrencesSince goes through the occurrences from the one that was kept to now. The latest
// one can still run if it is not older than window; the others are missed.
func (s Schedule) occurrencesSince(kept, now time.Time, window time.Duration) (latest Occurrence, missed MissedOccurrences) {
	if s.every > 0 {
		return s.occurrencesSinceEvery(kept, now, window)
	}
	var last time.Time
	for o, ok := s.Next(kept.Add(-1)); ok && !o.At.After(now); o, ok = s.Next(o.At) {
		if missed.Count == maxMissedCounted {
			missed.Truncated = true
			break
		}
		if missed.Count++; missed.First.IsZero() {
			missed.First = o.At
		}
		missed.Last, last, latest = last, o.At, o // the latest may yet be removed
	}
	if missed.Truncated {
		latest = s.latestWithin(now, window)
	}
	return excludeRunnable(latest, last, now, window, missed)
}

func (s Schedule) occurrencesSinceEvery(kept, now time.Time, window time.Duration) (latest Occurrence, missed MissedOccurrences) {
	n := now.Sub(kept) / s.every
	at := kept.Add(n * s.every).UTC()
	missed = MissedOccurrences{Count: int(n) + 1, First: kept, Last: at.Add(-s.every)}
	return excludeRunnable(Occurrence{At: at, Nominal: at}, at, now, window, missed)
}

// latestWithin finds the last occurrence within the window; its zero value if there is
// none.
func (s Schedule) latestWithin(now time.Time, window time.Duration) (latest Occurrence) {
	for o, ok := s.Next(now.Add(-window)); ok && !o.At.After(now); o, ok = s.Next(o.At) {
		latest = o
	}
	return latest
}

// excludeRunnable takes the latest occurrence out of the missed ones if it can still run.
// Last of what was missed is the one before it.
func excludeRunnable(latest Occurrence, last, now time.Time, window time.Duration, missed MissedOccurrences) (Occurrence, MissedOccurrences) {
	if latest.At.IsZero() || now.Sub(latest.At) > window {
		missed.Last = last
		return Occurrence{}, missed
	}
	if missed.Truncated {
		missed.Last = last
		return latest, missed
	}
	if missed.Count--; missed.Count == 0 {
		missed = MissedOccurrences{}
	}
	return latest, missed
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
	return fmt.Sprintf("%s times passed while nothing ran, from %s to %s", count, format.Minute(m.First), format.Minute(m.Last))
}

// Upcoming returns the next n occurrences of a drill, beginning with the one that
// is kept. The schedule must be right; a drill without one has none.
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
