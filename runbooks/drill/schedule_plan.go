package drill

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// onTime is how late a run still counts as one by its schedule: a loop that looks
// twice a minute is no more punctual than that.
const onTime = time.Minute

// maxCounted bounds how many occurrences that were missed are counted one by one.
const maxCounted = 100_000

// Action is what is to be done about one drill at one moment, in this order: what
// was missed is noted, a run is begun, the next due time is kept.
type Action struct {
	Spec   Spec
	Run    Trigger    // empty: nothing is begun
	At     Occurrence // of the run
	Late   time.Duration
	Missed MissedTimes
	Due    Due  // to be kept; its Next is zero if there is nothing to keep
	Drop   bool // what is kept of Spec.ID is to be forgotten
}

// rest is what is due once that which was missed has been noted.
func (a Action) rest() Due {
	d := a.Due
	if a.Run != "" {
		d.Next = a.At.At
	}
	return d
}

// MissedTimes are those that came while nothing ran.
type MissedTimes struct {
	Count       int // 0: nothing
	First, Last time.Time
	More        bool // there were more, which nobody counted
}

// Plan says what to do at an instant: which drills are due, and what has been
// missed. Its order is that in which they were due.
//
// A schedule that is new, or has been changed, counts from now on. An occurrence
// that is late runs once if it is within Spec.CatchUp, and only the latest does;
// all others are missed. When the wall clock has gone back, due times are reckoned
// anew: whoever begins a run makes sure that no occurrence gets a second one.
func Plan(now time.Time, specs []Spec, dues map[string]Due) []Action {
	var all []Action
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
			all = append(all, Action{Spec: Spec{ID: id}, Drop: true})
		}
	}
	slices.SortFunc(all, func(a, b Action) int {
		return cmp.Or(a.At.At.Compare(b.At.At), cmp.Compare(a.Spec.ID, b.Spec.ID))
	})
	return all
}

// plan looks at one drill; false: nothing is to be done.
func plan(now time.Time, s Spec, schedule Schedule, kept Due) (Action, bool) {
	next, ok := schedule.Next(now)
	if !ok { // not after ParseSchedule
		return Action{}, false
	}
	a := Action{Spec: s, Due: Due{Drill: s.ID, Schedule: schedule.text, Zone: schedule.zone, Next: next.At}}
	switch {
	case kept.Schedule != schedule.text || kept.Zone != schedule.zone || kept.Next.IsZero():
		return a, true
	case kept.Next.After(next.At): // the clock was ahead when it was kept
		return a, true
	case kept.Next.After(now):
		return Action{}, false
	}
	latest, missed := schedule.passed(kept.Next, now, max(s.CatchUp, onTime))
	if schedule.every > 0 { // its phase stays
		a.Due.Next = kept.Next.Add((now.Sub(kept.Next)/schedule.every + 1) * schedule.every)
	}
	a.Missed = missed
	if latest.At.IsZero() {
		return a, true
	}
	a.At, a.Late, a.Run = latest, now.Sub(latest.At), BySchedule
	if a.Late > onTime {
		a.Run = ByCatchUp
	}
	return a, true
}

// passed goes through the occurrences from the one that was kept to now. The latest
// one can still run if it is not older than window; the others are missed.
func (s Schedule) passed(kept, now time.Time, window time.Duration) (latest Occurrence, missed MissedTimes) {
	if s.every > 0 {
		return s.passedEvery(kept, now, window)
	}
	var last time.Time
	for o, ok := s.Next(kept.Add(-1)); ok && !o.At.After(now); o, ok = s.Next(o.At) {
		if missed.Count == maxCounted {
			missed.More = true
			break
		}
		if missed.Count++; missed.First.IsZero() {
			missed.First = o.At
		}
		missed.Last, last, latest = last, o.At, o // the latest may yet be taken out
	}
	if missed.More {
		latest = s.latest(now, window)
	}
	return settle(latest, last, now, window, missed)
}

func (s Schedule) passedEvery(kept, now time.Time, window time.Duration) (latest Occurrence, missed MissedTimes) {
	n := now.Sub(kept) / s.every
	at := kept.Add(n * s.every).UTC()
	missed = MissedTimes{Count: int(n) + 1, First: kept, Last: at.Add(-s.every)}
	return settle(Occurrence{At: at, Named: at}, at, now, window, missed)
}

// latest finds the last occurrence within the window; its zero value if there is
// none.
func (s Schedule) latest(now time.Time, window time.Duration) (latest Occurrence) {
	for o, ok := s.Next(now.Add(-window)); ok && !o.At.After(now); o, ok = s.Next(o.At) {
		latest = o
	}
	return latest
}

// settle takes the latest occurrence out of the missed ones if it can still run.
// Last of what was missed is the one before it.
func settle(latest Occurrence, last, now time.Time, window time.Duration, missed MissedTimes) (Occurrence, MissedTimes) {
	if latest.At.IsZero() || now.Sub(latest.At) > window {
		missed.Last = last
		return Occurrence{}, missed
	}
	if missed.More {
		missed.Last = last
		return latest, missed
	}
	if missed.Count--; missed.Count == 0 {
		missed = MissedTimes{}
	}
	return latest, missed
}

// reason says in a line what was missed.
func (m MissedTimes) reason() string {
	count := fmt.Sprint(m.Count)
	if m.More {
		count = "more than " + count
	}
	if m.Count == 1 {
		return "its time passed while nothing ran: " + stamp(m.Last)
	}
	return fmt.Sprintf("%s times passed while nothing ran, from %s to %s", count, stamp(m.First), stamp(m.Last))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// Upcoming returns the next n occurrences of a drill, beginning with the one that
// is kept. The schedule must be right; a drill without one has none.
func Upcoming(s Spec, kept Due, now time.Time, n int) []Occurrence {
	schedule, err := ParseSchedule(s.Schedule, s.Zone)
	if err != nil || n < 1 {
		return nil
	}
	if schedule.every > 0 && kept.Schedule == schedule.text && kept.Next.After(now) {
		first := Occurrence{At: kept.Next.UTC(), Named: kept.Next.UTC()}
		return append([]Occurrence{first}, schedule.NextN(kept.Next, n-1)...)
	}
	return schedule.NextN(now, n)
}
