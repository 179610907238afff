package engine

import (
	"slices"
	"time"
)

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

// maxFlapTimes bounds the turns for the worse that a state remembers.
const maxFlapTimes = 64

// countFlap notes a turn for the worse, and flags the incident if they are too many.
func (t *txn) countFlap(s *ruleState, inc *Incident) {
	flips := append(slices.Clone(s.FlapTimes), t.now)
	s.FlapTimes = flips[max(0, len(flips)-maxFlapTimes):]
	t.pruneFlaps(s)
	if !inc.Flapping && len(s.FlapTimes) >= t.m.c.Flap.Count {
		inc.Flapping, s.LastDigest = true, time.Time{}
	}
}

// pruneFlaps forgets flips that are too old to count.
func (t *txn) pruneFlaps(s *ruleState) {
	old := func(at time.Time) bool { return t.now.Sub(at) > t.m.c.Flap.Window }
	if slices.ContainsFunc(s.FlapTimes, old) {
		s.FlapTimes = slices.DeleteFunc(slices.Clone(s.FlapTimes), old)
	}
	if len(s.FlapTimes) == 0 {
		s.FlapTimes = nil
	}
}

// flapping says whether the state's incident comes and goes.
func (t *txn) flapping(s *ruleState) bool {
	inc, ok := t.m.incidents[s.Incident]
	return ok && inc.Flapping
}

// announceFlapping says that an incident has begun to flap.
func (t *txn) announceFlapping(s *ruleState, inc *Incident) {
	if inc.Flapping && s.LastDigest.IsZero() {
		t.emitDigest(s, inc)
	}
}

func (t *txn) emitDigest(s *ruleState, inc *Incident) {
	t.emit(inc, Event{Kind: EventFlapping, Count: len(s.FlapTimes)})
	s.LastDigest = t.now
}

// updateFlapping makes the digests of a flapping, and ends it when it has become rare.
func (t *txn) updateFlapping(s *ruleState) {
	t.pruneFlaps(s)
	if !t.flapping(s) {
		return
	}
	inc := t.incident(s.Incident)
	switch {
	case len(s.FlapTimes) < t.m.c.Flap.Count:
		inc.Flapping, s.LastDigest = false, time.Time{}
		t.emit(inc, Event{Kind: EventSteady})
	case t.now.Sub(s.LastDigest) >= t.m.c.Flap.Digest && slices.MaxFunc(s.FlapTimes, time.Time.Compare).After(s.LastDigest):
		t.emitDigest(s, inc)
	}
}
