package engine

import "time"

// evaluateRule applies one rule's value to its state and incident.
func (t *txn) evaluateRule(r Rule, v Value) {
	s := t.state(r.Key())
	t.expireReopenWindow(s)
	b := r.bandOf(v)
	s.last = v
	if b == bandMissing {
		s.last = Value{Quality: Missing}
	}
	s.updateDurations(r, b, t.elapsed, t.m.c)
	if s.open() && b.hasValue() {
		t.incident(s.Incident).Value = v.V
	}
	switch {
	case b == bandIdle:
		t.closeIdle(s)
	case b == bandMissing: // held as it is
	case s.open():
		t.updateOpen(r, s, b, v.V)
	default:
		t.updateClosed(r, s, b, v.V)
	}
}

// expireReopenWindow forgets the latest incident after the reopen window: the next breach opens a new one. A breach
// that began within the window still reopens the incident, and so does one of an incident that flaps.
func (t *txn) expireReopenWindow(s *ruleState) {
	if s.Phase != OK || s.Incident == "" {
		return
	}
	if t.now.Sub(s.LastResolved) <= t.m.c.ReopenWindow && t.m.c.ReopenWindow > 0 || t.flapping(s) {
		return
	}
	s.Incident, s.LastResolved, s.LastNotified, s.LastDigest = "", time.Time{}, time.Time{}, time.Time{}
}

// closeIdle resolves the incident of a rule that has been idle for too long, and resets its state.
func (t *txn) closeIdle(s *ruleState) {
	if s.IdleFor < t.m.c.IdleClose {
		return
	}
	if s.open() {
		t.resolve(s, NoTraffic)
	}
	s.reset()
}

// updateClosed handles a value of a state without an open incident.
func (t *txn) updateClosed(r Rule, s *ruleState, b band, v float64) {
	switch level := s.reachedLevel(r); {
	case level != LevelNone:
		t.fire(r, s, level, v)
	case b.breach():
		s.Phase = Pending
	case b == bandClear:
		s.Phase = OK
	}
}

// updateOpen handles a value of a state with an open incident.
func (t *txn) updateOpen(r Rule, s *ruleState, b band, v float64) {
	inc := t.incident(s.Incident)
	switch {
	case b == bandClear && s.ClearFor >= r.Clear.For:
		t.resolve(s, Recovered)
		return
	case b == bandClear && s.Phase == Firing:
		s.Phase = Recovering
		t.emitSilent(inc, EventRecovering)
	case b.breach() && s.Phase == Recovering:
		s.Phase = Firing
		t.countFlap(s, inc)
		t.emitSilent(inc, EventRefired)
		t.announceFlapping(s, inc)
	}
	t.updateLevel(r, s, b, inc)
}

// updateLevel moves an open incident between warn and page.
func (t *txn) updateLevel(r Rule, s *ruleState, b band, inc *Incident) {
	switch {
	case s.Level < LevelPage && s.reachedLevel(r) == LevelPage:
		t.escalate(r, s, inc)
	case s.Level == LevelPage && b == bandWarn && s.BelowPageFor >= r.Clear.For:
		s.Level, s.BelowPageFor = LevelWarn, 0
		inc.applyRule(r, LevelWarn, t.now)
		t.emit(inc, Event{Kind: EventDeescalated, Digested: inc.Flapping})
	}
}

// reset returns a state without an open incident to OK. What reopening needs stays.
func (s *ruleState) reset() {
	s.Phase, s.Level = OK, LevelNone
	s.WarnFor, s.PageFor, s.ClearFor, s.BelowPageFor, s.IdleFor, s.MissingFor = 0, 0, 0, 0, 0, 0
}

// band is where a value stands against a rule's thresholds.
type band uint8

const (
	bandNone band = iota // nothing was evaluated before
	bandMissing
	bandIdle
	bandClear // below clear
	bandHold  // between clear and the first threshold
	bandWarn
	bandPage
)

func (b band) hasValue() bool { return b >= bandClear }

func (b band) breach() bool { return b >= bandWarn }

// bandOf classifies a value. A value that is not a finite number is missing.
func (r Rule) bandOf(v Value) band {
	switch {
	case v.Quality == Idle:
		return bandIdle
	case v.Quality != Valid || !finite(v.V):
		return bandMissing
	case r.Page.Set && v.V >= r.Page.At:
		return bandPage
	case r.Warn.Set && v.V >= r.Warn.At:
		return bandWarn
	case v.V < r.Clear.Below:
		return bandClear
	default:
		return bandHold
	}
}

// ruleState is a state, with its value and band at the previous evaluation.
type ruleState struct {
	State
	band band
	last Value
}

// updateDurations advances the durations of a state. The time between two evaluations counts only if both are in the
// same condition: durations hold observed time alone.
func (s *ruleState) updateDurations(r Rule, b band, elapsed time.Duration, c Config) {
	prev := s.band
	s.band = b
	s.updateNoDataDurations(prev, b, elapsed, c)
	if !b.hasValue() {
		return
	}
	s.updateBreachDurations(r, prev, b, elapsed)
	s.updateRecoveryDurations(r, prev, b, elapsed)
}

// updateNoDataDurations advances the durations of missing and idle values. Meanwhile all other durations stand still.
func (s *ruleState) updateNoDataDurations(prev, b band, elapsed time.Duration, c Config) {
	switch {
	case b != bandMissing:
		s.MissingFor = 0
	case prev == bandMissing:
		s.MissingFor = min(s.MissingFor+elapsed, c.MissingGrace)
	}
	switch {
	case b.hasValue() || s.Phase == OK:
		s.IdleFor = 0
	case b == bandIdle && prev == bandIdle:
		s.IdleFor = min(s.IdleFor+elapsed, c.IdleClose)
	}
}

func (s *ruleState) updateBreachDurations(r Rule, prev, b band, elapsed time.Duration) {
	switch {
	case !r.Warn.Set || b == bandClear:
		s.WarnFor = 0
	case b.breach() && prev.breach():
		s.WarnFor = addCapped(s.WarnFor, elapsed, r.Warn.For)
	}
	switch {
	case !r.Page.Set || b == bandClear || r.Warn.Set && b != bandPage:
		s.PageFor = 0
	case b == bandPage && prev == bandPage:
		s.PageFor = addCapped(s.PageFor, elapsed, r.Page.For)
	}
}

// updateRecoveryDurations advances the durations after which an open incident is resolved or deescalated.
func (s *ruleState) updateRecoveryDurations(r Rule, prev, b band, elapsed time.Duration) {
	switch {
	case !s.open() || b.breach():
		s.ClearFor = 0
	case b == bandClear && prev == bandClear:
		s.ClearFor = addCapped(s.ClearFor, elapsed, r.Clear.For)
	}
	switch {
	case s.Level != LevelPage || b == bandPage:
		s.BelowPageFor = 0
	case b == bandWarn && prev == bandWarn:
		s.BelowPageFor = addCapped(s.BelowPageFor, elapsed, r.Clear.For)
	}
}

// addCapped adds to a duration up to a limit. A duration above the limit (of an earlier, longer rule) stays.
func addCapped(d, by, limit time.Duration) time.Duration {
	return max(d, min(d+by, limit))
}

// open says whether the state has an open incident.
func (s *ruleState) open() bool { return s.Phase == Firing || s.Phase == Recovering }

// reachedLevel returns the level whose threshold has been breached for long enough.
func (s *ruleState) reachedLevel(r Rule) Level {
	switch {
	case r.Page.Set && s.band == bandPage && s.PageFor >= r.Page.For:
		return LevelPage
	case r.Warn.Set && s.band.breach() && s.WarnFor >= r.Warn.For:
		return LevelWarn
	default:
		return LevelNone
	}
}

// fire opens an incident, or reopens the latest one.
func (t *txn) fire(r Rule, s *ruleState, level Level, v float64) {
	s.Phase, s.Level = Firing, level
	s.ClearFor, s.BelowPageFor, s.IdleFor = 0, 0, 0
	if inc := t.incident(s.Incident); inc != nil {
		t.reopen(r, s, inc, v)
		return
	}
	t.clearSuperseded(s.Key)
	inc := t.create(Incident{ID: t.m.c.NewID(), Key: s.Key, Opened: t.now, Value: v})
	inc.applyRule(r, level, t.now)
	s.Incident, s.LastResolved, s.LastDigest = inc.ID, time.Time{}, time.Time{}
	t.countFlap(s, inc)
	t.emit(inc, Event{Kind: EventOpened})
	s.LastNotified = t.now
	t.announceFlapping(s, inc)
}

func (t *txn) reopen(r Rule, s *ruleState, inc *Incident, v float64) {
	higher := s.Level > inc.Peak
	inc.Ended, inc.Resolution, inc.Value = time.Time{}, "", v
	inc.ReopenCount++
	inc.applyRule(r, s.Level, t.now)
	s.LastResolved = time.Time{}
	t.countFlap(s, inc)
	t.notify(s, inc, Event{Kind: EventReopened, Digested: inc.Flapping && !higher})
	t.announceFlapping(s, inc)
}

// escalate raises an incident from warn to page. It ends an acknowledgement, which was for the warning.
func (t *txn) escalate(r Rule, s *ruleState, inc *Incident) {
	higher := LevelPage > inc.Peak
	s.Level, s.BelowPageFor = LevelPage, 0
	inc.AckedBy, inc.AckUntil = "", time.Time{}
	inc.applyRule(r, LevelPage, t.now)
	t.countFlap(s, inc)
	t.notify(s, inc, Event{Kind: EventEscalated, Digested: inc.Flapping && !higher})
	t.announceFlapping(s, inc)
}

// resolve ends the incident of a state.
func (t *txn) resolve(s *ruleState, why Resolution) {
	inc := t.incident(s.Incident)
	inc.Ended, inc.Resolution = t.now, why
	inc.AckedBy, inc.AckUntil = "", time.Time{}
	t.emit(inc, Event{Kind: EventResolved, Digested: inc.Flapping})
	s.Phase, s.Level, s.LastResolved = OK, LevelNone, t.now
	s.WarnFor, s.PageFor, s.ClearFor, s.BelowPageFor, s.IdleFor = 0, 0, 0, 0, 0
}

// applyRule gives an incident a level, and the texts that the rule has now.
func (i *Incident) applyRule(r Rule, level Level, now time.Time) {
	i.Level, i.Changed = level, now
	i.Peak = max(i.Peak, level)
	i.Unit, i.Summary, i.Impact, i.Runbook, i.Action = r.Unit, r.Summary, r.Impact, r.Runbook, r.Action
	i.Threshold = r.Warn.At
	if level == LevelPage && r.Page.Set || !r.Warn.Set {
		i.Threshold = r.Page.At
	}
}

// notify emits an event that people are notified of, unless it is part of a flapping.
func (t *txn) notify(s *ruleState, inc *Incident, e Event) {
	t.emit(inc, e)
	if !e.Digested {
		s.LastNotified = t.now
	}
}

// emitSilent emits an event without a notification, unless the incident flaps: there would be too many.
func (t *txn) emitSilent(inc *Incident, kind EventKind) {
	if !inc.Flapping {
		t.emit(inc, Event{Kind: kind})
	}
}

// clearSuperseded drops the pending notification of an older incident of the key that was muted throughout: after the
// silence, only the latest one counts.
func (t *txn) clearSuperseded(key Key) {
	for _, id := range t.m.incidentIDsByAge() {
		if inc := t.m.incidents[id]; inc.Key == key && inc.PendingUnmute && !inc.Notified && !inc.Open() {
			t.incident(id).PendingUnmute = false
		}
	}
}
