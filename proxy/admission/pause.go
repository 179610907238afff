package admission

import "time"

// Pause hands out no permit before until: for maintenance of the endpoint. Those
// who run are left to finish, and those who come wait, or are turned away, by
// the ordinary rules, as if all permits were out. It ends by itself with the
// first call on the gate at until or later, reading a Snapshot included, and
// earlier with Resume. Pausing again replaces the end; an end that is not after
// now is a Resume.
func (g *Gate) Pause(now, until time.Time) {
	g.update(now, func() { g.pausedUntil = until })
}

// Resume ends a pause, if there is one, and grants to those who waited for it.
func (g *Gate) Resume(now time.Time) {
	g.update(now, func() { g.pausedUntil = time.Time{} })
}

// lock takes the lock and returns the time that counts: now, or the latest time
// seen if that is later. If a pause has come to its end, those who waited for it
// have been granted to before it returns, whatever the caller is about to do.
func (g *Gate) lock(now time.Time) time.Time {
	for {
		g.mu.Lock()
		now = g.advanceLocked(now)
		if !g.pauseExpiredLocked(now) {
			return now
		}
		g.endPauseAndUnlock(now)
	}
}

func (g *Gate) endPauseAndUnlock(now time.Time) {
	done := func() wakeList {
		defer g.mu.Unlock()
		return g.applyChangeLocked(now)
	}()
	done.notify()
}

func (g *Gate) pauseExpiredLocked(now time.Time) bool {
	return !g.pausedUntil.IsZero() && !now.Before(g.pausedUntil)
}

// hasPermitLocked says whether there is a permit to hand out.
func (g *Gate) hasPermitLocked() bool {
	return g.pausedUntil.IsZero() && g.inFlight < g.settings.Workers
}
