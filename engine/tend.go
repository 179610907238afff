package engine

import "time"

// tend does what time alone brings about: the end of flappings and of
// acknowledgements, and reminders.
func (t *turn) tend() {
	for _, key := range sortedKeys(t.m.slots) {
		s := t.slot(key)
		t.settle(s)
		if s.open() {
			inc := t.incident(s.Incident)
			t.expireAck(s, inc)
			t.remind(s, inc)
		}
		t.lapse(s)
	}
}

// expireAck ends an acknowledgement whose time is over.
func (t *turn) expireAck(s *slot, inc *Incident) {
	if inc.AckedBy == "" || t.now.Before(inc.AckUntil) {
		return
	}
	by := inc.AckedBy
	inc.AckedBy, inc.AckUntil = "", time.Time{}
	t.tell(s, inc, Event{Kind: EventAckExpired, By: by})
}

// remind reminds of an open incident that nobody has taken on. Reminders, and
// whatever else people were told, are an interval apart.
func (t *turn) remind(s *slot, inc *Incident) {
	every := t.m.c.Remind.of(inc.Level)
	if every == 0 || inc.AckedBy != "" || t.muted(inc.Key) || t.now.Sub(s.Reminded) < every {
		return
	}
	t.tell(s, inc, Event{Kind: EventReminder})
}
