package engine

import "time"

// fire opens an incident, or continues the latest one if that may be.
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

// escalate takes an incident from warn to page. It pierces an acknowledgement:
// who has seen the warning has not seen this.
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

// applyRule gives an incident a level, and the rule's words as they are now.
func (i *Incident) applyRule(r Rule, level Level, now time.Time) {
	i.Level, i.Changed = level, now
	i.Peak = max(i.Peak, level)
	i.Unit, i.Summary, i.Impact, i.Runbook, i.Action = r.Unit, r.Summary, r.Impact, r.Runbook, r.Action
	i.Threshold = r.Warn.At
	if level == LevelPage && r.Page.Set || !r.Warn.Set {
		i.Threshold = r.Page.At
	}
}

// notify adds an event that people are to hear of.
func (t *txn) notify(s *ruleState, inc *Incident, e Event) {
	t.emit(inc, e)
	if !e.Digested {
		s.LastNotified = t.now
	}
}

// emitSilent adds an event that disturbs nobody. While an incident flaps there would
// be no end of them, and they are left out.
func (t *txn) emitSilent(inc *Incident, kind EventKind) {
	if !inc.Flapping {
		t.emit(inc, Event{Kind: kind})
	}
}

// clearSuperseded drops what is due about an older incident of the key that nobody has
// heard of: after a silence the latest one is the truth.
func (t *txn) clearSuperseded(key Key) {
	for _, id := range t.m.incidentIDsByAge() {
		if inc := t.m.incidents[id]; inc.Key == key && inc.PendingUnmute && !inc.Notified && !inc.Open() {
			t.incident(id).PendingUnmute = false
		}
	}
}
