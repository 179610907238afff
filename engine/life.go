package engine

import "time"

// fire opens an incident, or continues the latest one if that may be.
func (t *turn) fire(r Rule, s *slot, level Level, v float64) {
	s.Phase, s.Level = Firing, level
	s.ClearFor, s.CalmFor, s.IdleFor = 0, 0, 0
	if inc := t.incident(s.Incident); inc != nil {
		t.reopen(r, s, inc, v)
		return
	}
	t.supersede(s.Key)
	inc := t.create(Incident{ID: t.m.c.NewID(), Key: s.Key, Opened: t.now, Value: v})
	inc.take(r, level, t.now)
	s.Incident, s.Resolved, s.Digested = inc.ID, time.Time{}, time.Time{}
	t.flip(s, inc)
	t.emit(inc, Event{Kind: EventOpened})
	s.Reminded = t.now
	t.announceFlapping(s, inc)
}

func (t *turn) reopen(r Rule, s *slot, inc *Incident, v float64) {
	higher := s.Level > inc.Peak
	inc.Ended, inc.Why, inc.Value = time.Time{}, "", v
	inc.Reopened++
	inc.take(r, s.Level, t.now)
	s.Resolved = time.Time{}
	t.flip(s, inc)
	t.tell(s, inc, Event{Kind: EventReopened, Digested: inc.Flapping && !higher})
	t.announceFlapping(s, inc)
}

// escalate takes an incident from warn to page. It pierces an acknowledgement:
// who has seen the warning has not seen this.
func (t *turn) escalate(r Rule, s *slot, inc *Incident) {
	higher := LevelPage > inc.Peak
	s.Level, s.CalmFor = LevelPage, 0
	inc.AckedBy, inc.AckUntil = "", time.Time{}
	inc.take(r, LevelPage, t.now)
	t.flip(s, inc)
	t.tell(s, inc, Event{Kind: EventEscalated, Digested: inc.Flapping && !higher})
	t.announceFlapping(s, inc)
}

// resolve ends the incident of a state.
func (t *turn) resolve(s *slot, why Resolution) {
	inc := t.incident(s.Incident)
	inc.Ended, inc.Why = t.now, why
	inc.AckedBy, inc.AckUntil = "", time.Time{}
	t.emit(inc, Event{Kind: EventResolved, Digested: inc.Flapping})
	s.Phase, s.Level, s.Resolved = OK, LevelNone, t.now
	s.WarnFor, s.PageFor, s.ClearFor, s.CalmFor, s.IdleFor = 0, 0, 0, 0, 0
}

// take gives an incident a level, and the rule's words as they are now.
func (i *Incident) take(r Rule, level Level, now time.Time) {
	i.Level, i.Changed = level, now
	i.Peak = max(i.Peak, level)
	i.Unit, i.Summary, i.Feel, i.Runbook, i.Action = r.Unit, r.Summary, r.Feel, r.Runbook, r.Action
	i.Threshold = r.Warn.At
	if level == LevelPage && r.Page.Set || !r.Warn.Set {
		i.Threshold = r.Page.At
	}
}

// tell adds an event that people are to hear of.
func (t *turn) tell(s *slot, inc *Incident, e Event) {
	t.emit(inc, e)
	if !e.Digested {
		s.Reminded = t.now
	}
}

// mutter adds an event that disturbs nobody. While an incident flaps there would
// be no end of them, and they are left out.
func (t *turn) mutter(inc *Incident, kind EventKind) {
	if !inc.Flapping {
		t.emit(inc, Event{Kind: kind})
	}
}

// supersede drops what is due about an older incident of the key that nobody has
// heard of: after a silence the latest one is the truth.
func (t *turn) supersede(key Key) {
	for _, id := range t.m.byAge() {
		if inc := t.m.incidents[id]; inc.Key == key && inc.Due && !inc.Told && !inc.Open() {
			t.incident(id).Due = false
		}
	}
}
