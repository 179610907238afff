package engine

import (
	"slices"
	"time"
)

// maintain handles what depends on time alone: the end of flapping, of acknowledgements and of reopen windows, and
// reminders.
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

// expireAck ends an acknowledgement after its time.
func (t *txn) expireAck(s *ruleState, inc *Incident) {
	if inc.AckedBy == "" || t.now.Before(inc.AckUntil) {
		return
	}
	by := inc.AckedBy
	inc.AckedBy, inc.AckUntil = "", time.Time{}
	t.notify(s, inc, Event{Kind: EventAckExpired, By: by})
}

// remind emits a reminder of an open incident that is not acknowledged, an interval after the latest notification.
func (t *txn) remind(s *ruleState, inc *Incident) {
	every := t.m.c.Remind.interval(inc.Level)
	if every == 0 || inc.AckedBy != "" || t.muted(inc.Key) || t.now.Sub(s.LastNotified) < every {
		return
	}
	t.notify(s, inc, Event{Kind: EventReminder})
}

// maxFlapTimes bounds the flaps that a state remembers.
const maxFlapTimes = 64

// countFlap records a flap (an opening, reopening, refiring or escalation), and marks the incident as flapping if there
// are too many.
func (t *txn) countFlap(s *ruleState, inc *Incident) {
	flaps := append(slices.Clone(s.FlapTimes), t.now)
	s.FlapTimes = flaps[max(0, len(flaps)-maxFlapTimes):]
	t.pruneFlaps(s)
	if !inc.Flapping && len(s.FlapTimes) >= t.m.c.Flap.Count {
		inc.Flapping, s.LastDigest = true, time.Time{}
	}
}

// pruneFlaps forgets flaps outside the window.
func (t *txn) pruneFlaps(s *ruleState) {
	old := func(at time.Time) bool { return t.now.Sub(at) > t.m.c.Flap.Window }
	if slices.ContainsFunc(s.FlapTimes, old) {
		s.FlapTimes = slices.DeleteFunc(slices.Clone(s.FlapTimes), old)
	}
	if len(s.FlapTimes) == 0 {
		s.FlapTimes = nil
	}
}

// flapping says whether the state's incident flaps.
func (t *txn) flapping(s *ruleState) bool {
	inc, ok := t.m.incidents[s.Incident]
	return ok && inc.Flapping
}

// announceFlapping emits the first digest of an incident that has begun to flap.
func (t *txn) announceFlapping(s *ruleState, inc *Incident) {
	if inc.Flapping && s.LastDigest.IsZero() {
		t.emitDigest(s, inc)
	}
}

func (t *txn) emitDigest(s *ruleState, inc *Incident) {
	t.emit(inc, Event{Kind: EventFlapping, Count: len(s.FlapTimes)})
	s.LastDigest = t.now
}

// updateFlapping emits further digests, and ends the flapping when flaps have become rare.
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
	case t.now.Sub(s.LastDigest) >= t.m.c.Flap.Digest && slices.MaxFunc(s.FlapTimes,
		time.Time.Compare).After(s.LastDigest):
		t.emitDigest(s, inc)
	}
}
