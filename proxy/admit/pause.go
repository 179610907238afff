package admit

import "time"

// Pause hands out no permit before until: for maintenance of the endpoint. Those
// who run are left to finish, and those who come wait, or are turned away, by
// the ordinary rules, as if all permits were out. It ends by itself with the
// first call on the gate at until or later, reading a Snapshot included, and
// earlier with Resume. Pausing again replaces the end; an end that is not after
// now is a Resume.
func (g *Gate) Pause(now, until time.Time) {
	g.control(now, func() {
		g.paused = until
		g.pausing.Store(true)
	})
}

// Resume ends a pause, if there is one, and grants to those who waited for it.
func (g *Gate) Resume(now time.Time) {
	g.control(now, g.resumeLocked)
}

func (g *Gate) resumeLocked() {
	g.paused = time.Time{}
	g.pausing.Store(false)
}

// wake ends a pause that is over, before the call that noticed is dealt with:
// who waited for the end of it comes first. Without a pause it costs no lock.
func (g *Gate) wake(now time.Time) {
	if g.pausing.Load() {
		g.apply(now, func() {})
	}
}

// pauseOverLocked ends a pause whose time has come. Only apply may find it so:
// whoever ends a pause must grant.
func (g *Gate) pauseOverLocked(now time.Time) {
	if !g.paused.IsZero() && !now.Before(g.paused) {
		g.resumeLocked()
	}
}

// freeLocked says whether there is a permit to hand out.
func (g *Gate) freeLocked() bool {
	return g.paused.IsZero() && g.inFlight < g.settings.Workers
}
