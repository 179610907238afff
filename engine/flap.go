package engine

import (
	"slices"
	"time"
)

// maxFlips bounds the turns for the worse that a state remembers.
const maxFlips = 64

// flip notes a turn for the worse, and flags the incident if they are too many.
func (t *turn) flip(s *slot, inc *Incident) {
	flips := append(slices.Clone(s.Flips), t.now)
	s.Flips = flips[max(0, len(flips)-maxFlips):]
	t.prune(s)
	if !inc.Flapping && len(s.Flips) >= t.m.c.Flap.Count {
		inc.Flapping, s.Digested = true, time.Time{}
	}
}

// prune forgets flips that are too old to count.
func (t *turn) prune(s *slot) {
	old := func(at time.Time) bool { return t.now.Sub(at) > t.m.c.Flap.Window }
	if slices.ContainsFunc(s.Flips, old) {
		s.Flips = slices.DeleteFunc(slices.Clone(s.Flips), old)
	}
	if len(s.Flips) == 0 {
		s.Flips = nil
	}
}

// flapping says whether the state's incident comes and goes.
func (t *turn) flapping(s *slot) bool {
	inc, ok := t.m.incidents[s.Incident]
	return ok && inc.Flapping
}

// announceFlapping says that an incident has begun to flap.
func (t *turn) announceFlapping(s *slot, inc *Incident) {
	if inc.Flapping && s.Digested.IsZero() {
		t.digest(s, inc)
	}
}

func (t *turn) digest(s *slot, inc *Incident) {
	t.emit(inc, Event{Kind: EventFlapping, Count: len(s.Flips)})
	s.Digested = t.now
}

// settle makes the digests of a flapping, and ends it when it has become rare.
func (t *turn) settle(s *slot) {
	t.prune(s)
	if !t.flapping(s) {
		return
	}
	inc := t.incident(s.Incident)
	switch {
	case len(s.Flips) < t.m.c.Flap.Count:
		inc.Flapping, s.Digested = false, time.Time{}
		t.emit(inc, Event{Kind: EventSteady})
	case t.now.Sub(s.Digested) >= t.m.c.Flap.Digest && slices.MaxFunc(s.Flips, time.Time.Compare).After(s.Digested):
		t.digest(s, inc)
	}
}
