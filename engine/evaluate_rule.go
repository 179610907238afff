package engine

import "time"

// evaluateRule takes one rule's value into account.
func (t *txn) evaluateRule(r Rule, v Value) {
	s := t.state(r.Key())
	t.expireReopenWindow(s)
	z := r.bandOf(v)
	s.last = v
	if z == bandMissing {
		s.last = Value{Quality: Missing}
	}
	s.updateDurations(r, z, t.elapsed, t.m.c)
	if s.open() && z.hasValue() {
		t.incident(s.Incident).Value = v.V
	}
	switch {
	case z == bandIdle:
		t.closeIdle(s)
	case z == bandMissing: // held as it is
	case s.open():
		t.updateOpen(r, s, z, v.V)
	default:
		t.updateClosed(r, s, z, v.V)
	}
}

// expireReopenWindow forgets the latest incident once trouble that comes back is new trouble.
// Trouble that began within the window is waited for, and flapping trouble is
// always the same.
func (t *txn) expireReopenWindow(s *ruleState) {
	if s.Phase != OK || s.Incident == "" {
		return
	}
	if t.now.Sub(s.LastResolved) <= t.m.c.ReopenWindow && t.m.c.ReopenWindow > 0 || t.flapping(s) {
		return
	}
	s.Incident, s.LastResolved, s.LastNotified, s.LastDigest = "", time.Time{}, time.Time{}, time.Time{}
}

// closeIdle lets go of everything that has been without traffic for too long.
func (t *txn) closeIdle(s *ruleState) {
	if s.IdleFor < t.m.c.IdleClose {
		return
	}
	if s.open() {
		t.resolve(s, NoTraffic)
	}
	s.reset()
}

// updateClosed looks at a state without an open incident.
func (t *txn) updateClosed(r Rule, s *ruleState, z band, v float64) {
	switch level := s.reachedLevel(r); {
	case level != LevelNone:
		t.fire(r, s, level, v)
	case z.breach():
		s.Phase = Pending
	case z == bandClear:
		s.Phase = OK
	}
}

// updateOpen looks at a state with an open incident.
func (t *txn) updateOpen(r Rule, s *ruleState, z band, v float64) {
	inc := t.incident(s.Incident)
	switch {
	case z == bandClear && s.ClearFor >= r.Clear.For:
		t.resolve(s, Recovered)
		return
	case z == bandClear && s.Phase == Firing:
		s.Phase = Recovering
		t.emitSilent(inc, EventRecovering)
	case z.breach() && s.Phase == Recovering:
		s.Phase = Firing
		t.countFlap(s, inc)
		t.emitSilent(inc, EventRefired)
		t.announceFlapping(s, inc)
	}
	t.updateLevel(r, s, z, inc)
}

// updateLevel moves an open incident between warn and page.
func (t *txn) updateLevel(r Rule, s *ruleState, z band, inc *Incident) {
	switch {
	case s.Level < LevelPage && s.reachedLevel(r) == LevelPage:
		t.escalate(r, s, inc)
	case s.Level == LevelPage && z == bandWarn && s.BelowPageFor >= r.Clear.For:
		s.Level, s.BelowPageFor = LevelWarn, 0
		inc.applyRule(r, LevelWarn, t.now)
		t.emit(inc, Event{Kind: EventDeescalated, Digested: inc.Flapping})
	}
}

// reset takes a state without an open incident back to OK. What is needed for
// reopening stays.
func (s *ruleState) reset() {
	s.Phase, s.Level = OK, LevelNone
	s.WarnFor, s.PageFor, s.ClearFor, s.BelowPageFor, s.IdleFor, s.MissingFor = 0, 0, 0, 0, 0, 0
}
