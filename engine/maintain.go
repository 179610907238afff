package engine

import "time"

// maintain does what time alone brings about: the end of flappings and of
// acknowledgements, and reminders.
func (t *txn) maintain() {
	for _, key := range sortedKeys(t.m.states) {
		s := t.state(key)
		t.updateFlapping(s)
		if s.open() {
			inc := t.incident(s.Incident)
			t.expireAck(s, inc)
			t.remind(s, inc)
		}
		t.expireReopenWindow(s)
	}
}

// expireAck ends an acknowledgement whose time is over.
func (t *txn) expireAck(s *ruleState, inc *Incident) {
	if inc.AckedBy == "" || t.now.Before(inc.AckUntil) {
		return
	}
	by := inc.AckedBy
	inc.AckedBy, inc.AckUntil = "", time.Time{}
	t.notify(s, inc, Event{Kind: EventAckExpired, By: by})
}

// remind reminds of an open incident that nobody has taken on. Reminders, and
// whatever else people were told, are an interval apart.
func (t *txn) remind(s *ruleState, inc *Incident) {
	every := t.m.c.Remind.interval(inc.Level)
	if every == 0 || inc.AckedBy != "" || t.muted(inc.Key) || t.now.Sub(s.LastNotified) < every {
		return
	}
	t.notify(s, inc, Event{Kind: EventReminder})
}
