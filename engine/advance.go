package engine

import "time"

// advance takes one rule's value into account.
func (t *turn) advance(r Rule, v Value) {
	s := t.slot(r.Key())
	t.lapse(s)
	z := r.zoneOf(v)
	s.last = v
	if z == zoneMissing {
		s.last = Value{Knowing: Missing}
	}
	s.dwell(r, z, t.elapsed, t.m.c)
	if s.open() && z.known() {
		t.incident(s.Incident).Value = v.V
	}
	switch {
	case z == zoneIdle:
		t.idle(s)
	case z == zoneMissing: // held as it is
	case s.open():
		t.carryOn(r, s, z, v.V)
	default:
		t.watch(r, s, z, v.V)
	}
}

// lapse forgets the latest incident once trouble that comes back is new trouble.
// Trouble that began within the window is waited for, and flapping trouble is
// always the same.
func (t *turn) lapse(s *slot) {
	if s.Phase != OK || s.Incident == "" {
		return
	}
	if t.now.Sub(s.Resolved) <= t.m.c.ReopenWindow && t.m.c.ReopenWindow > 0 || t.flapping(s) {
		return
	}
	s.Incident, s.Resolved, s.Reminded, s.Digested = "", time.Time{}, time.Time{}, time.Time{}
}

// idle lets go of everything that has been without traffic for too long.
func (t *turn) idle(s *slot) {
	if s.IdleFor < t.m.c.IdleClose {
		return
	}
	if s.open() {
		t.resolve(s, NoTraffic)
	}
	s.reset()
}

// watch looks at a state without an open incident.
func (t *turn) watch(r Rule, s *slot, z zone, v float64) {
	switch level := s.reached(r); {
	case level != LevelNone:
		t.fire(r, s, level, v)
	case z.breach():
		s.Phase = Pending
	case z == zoneClear:
		s.Phase = OK
	}
}

// carryOn looks at a state with an open incident.
func (t *turn) carryOn(r Rule, s *slot, z zone, v float64) {
	inc := t.incident(s.Incident)
	switch {
	case z == zoneClear && s.ClearFor >= r.Clear.For:
		t.resolve(s, Recovered)
		return
	case z == zoneClear && s.Phase == Firing:
		s.Phase = Recovering
		t.mutter(inc, EventRecovering)
	case z.breach() && s.Phase == Recovering:
		s.Phase = Firing
		t.flip(s, inc)
		t.mutter(inc, EventRefired)
		t.announceFlapping(s, inc)
	}
	t.level(r, s, z, inc)
}

// level moves an open incident between warn and page.
func (t *turn) level(r Rule, s *slot, z zone, inc *Incident) {
	switch {
	case s.Level < LevelPage && s.reached(r) == LevelPage:
		t.escalate(r, s, inc)
	case s.Level == LevelPage && z == zoneWarn && s.CalmFor >= r.Clear.For:
		s.Level, s.CalmFor = LevelWarn, 0
		inc.take(r, LevelWarn, t.now)
		t.emit(inc, Event{Kind: EventDeescalated, Digested: inc.Flapping})
	}
}

// reset takes a state without an open incident back to OK. What is needed for
// reopening stays.
func (s *slot) reset() {
	s.Phase, s.Level = OK, LevelNone
	s.WarnFor, s.PageFor, s.ClearFor, s.CalmFor, s.IdleFor, s.LostFor = 0, 0, 0, 0, 0, 0
}
