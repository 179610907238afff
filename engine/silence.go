package engine

import (
	"fmt"
	"slices"
	"time"
)

const (
	maxSilences = 1000
	// duplicateWithin is how much later a second silence may end and still be the wish of
	// the first: two people who press the same button, or one who presses twice.
	duplicateWithin = time.Minute
)

// Covers says whether the silence is about a key.
func (s Silence) Covers(key Key) bool {
	return s.Rule == key.Rule && (s.Pool == "" || s.Pool == key.Pool)
}

// activeAt says whether the silence mutes at that time.
func (s Silence) activeAt(at time.Time) bool {
	return !s.EndHandled && !at.Before(s.From) && at.Before(s.Until)
}

// SilenceResult is what became of the wish for a silence.
type SilenceResult struct {
	Silence Silence // the one that is there now
	Applied bool    // it was made by this command
}

// Silence mutes what is sent about a rule until s.Until, from s.From or now if
// that is zero or past. A running silence that says the same already wins.
func (m *Machine) Silence(now time.Time, s Silence) (SilenceResult, Batch, error) {
	t := m.begin(now)
	s.From, s.Until = truncateMS(s.From), truncateMS(s.Until)
	if s.From.Before(t.now) {
		s.From = t.now
	}
	if err := m.checkSilence(s); err != nil {
		return SilenceResult{}, Batch{}, err
	}
	for _, other := range m.silences {
		if other.activeAt(t.now) && other.Rule == s.Rule && other.Pool == s.Pool && s.From.Equal(t.now) &&
			s.Until.Sub(other.Until) <= duplicateWithin {
			return SilenceResult{Silence: other}, Batch{}, nil
		}
	}
	if len(m.silences) >= maxSilences {
		return SilenceResult{}, Batch{}, ErrTooMany
	}
	s.ID, s.EndHandled = m.c.NewID(), false
	m.silences = append(m.silences, s)
	t.silences = append(t.silences, s)
	return SilenceResult{Silence: s, Applied: true}, t.commit(), nil
}

func (m *Machine) checkSilence(s Silence) error {
	if err := checkText("the rule", s.Rule, 1, maxName); err != nil {
		return err
	}
	if err := checkText("the pool", s.Pool, 0, maxName); err != nil {
		return err
	}
	if err := checkText("the name", s.By, 1, maxName); err != nil {
		return err
	}
	if err := checkText("the reason", s.Reason, 0, maxReason); err != nil {
		return err
	}
	if length := s.Until.Sub(s.From); length <= 0 || length > m.c.SilenceMax {
		return fmt.Errorf("%w: a silence lasts up to %s, not %s", ErrRefused, m.c.SilenceMax, length)
	}
	return nil
}

// Unsilence ends a silence early.
func (m *Machine) Unsilence(now time.Time, id, by string) (Silence, Batch, error) {
	if err := checkText("the name", by, 1, maxName); err != nil {
		return Silence{}, Batch{}, err
	}
	n := slices.IndexFunc(m.silences, func(s Silence) bool { return s.ID == id })
	if n < 0 {
		return Silence{}, Batch{}, fmt.Errorf("%q: %w", id, ErrNoSilence)
	}
	t := m.begin(now)
	s := m.silences[n]
	ran := s.activeAt(t.now) || !t.now.Before(s.Until)
	s.Until, s.EndHandled = minTime(s.Until, t.now), true
	m.silences = slices.Delete(slices.Clone(m.silences), n, n+1)
	t.silences = append(t.silences, s)
	if ran {
		t.unmute([]Silence{s}, by)
	}
	return s, t.commit(), nil
}

// endSilences deals with the silences whose time is over.
func (t *txn) endSilences() {
	var ended, left []Silence
	for _, s := range t.m.silences {
		if t.now.Before(s.Until) {
			left = append(left, s)
			continue
		}
		s.EndHandled = true
		ended = append(ended, s)
	}
	if len(ended) == 0 {
		return
	}
	t.m.silences = left
	t.silences = append(t.silences, ended...)
	t.unmute(ended, "")
}

// unmute tells the truth about what the ended silences have muted, once for each
// incident that is open or has ended meanwhile, unless it is muted still.
func (t *txn) unmute(ended []Silence, by string) {
	for _, id := range t.m.incidentIDsByAge() {
		inc := t.m.incidents[id]
		covered := slices.ContainsFunc(ended, func(s Silence) bool { return s.Covers(inc.Key) })
		if !covered || t.muted(inc.Key) || !inc.PendingUnmute && (!inc.Open() || t.openedInTxn(id)) {
			continue
		}
		inc = t.incident(id)
		inc.PendingUnmute = false
		t.emit(inc, Event{Kind: EventUnmuted, By: by})
		if s, ok := t.m.states[inc.Key]; ok && s.Incident == id {
			t.state(inc.Key).LastNotified = t.now // also if it is over: it may be reopened without a ping
		}
	}
}

// openedInTxn says whether an incident was opened in this turn.
func (t *txn) openedInTxn(id string) bool {
	return t.incidentsBefore[id].ID == "" && slices.Contains(t.touchedIncidents, id)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
