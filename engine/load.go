package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxStoredDuration bounds the durations of a record.
const maxStoredDuration = 10 * 365 * 24 * time.Hour

// Load restores what was saved into a machine that has made no step yet. It repairs what is inconsistent (an open
// incident without a state, two of one key, future times) and returns what it repaired.
func (m *Machine) Load(now time.Time, saved SavedState) []string {
	l := loader{m: m, now: truncateMS(now), openByKey: make(map[Key]string)}
	incidents := slices.Clone(saved.Incidents)
	slices.SortStableFunc(incidents, func(a, b Incident) int { return a.Opened.Compare(b.Opened) })
	for _, inc := range incidents {
		l.incident(inc)
	}
	for _, s := range saved.States {
		l.state(s)
	}
	l.addMissingStates()
	for _, s := range saved.Silences {
		l.silence(s)
	}
	return l.warnings
}

type loader struct {
	m         *Machine
	now       time.Time
	openByKey map[Key]string // the open incident of a key
	warnings  []string
}

func (l *loader) warnf(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

func (l *loader) incident(inc Incident) {
	if _, twice := l.m.incidents[inc.ID]; inc.ID == "" || twice {
		l.warnf("incident %q is ignored: its ID is empty or repeated", inc.ID)
		return
	}
	inc.Level = l.clampLevel(inc.Level)
	inc.Peak = max(l.clampLevel(inc.Peak), inc.Level)
	inc.Seq = max(inc.Seq, 0)
	if !finite(inc.Value) || !finite(inc.Threshold) {
		inc.Value, inc.Threshold = 0, 0
	}
	inc.Opened, inc.Changed = truncateMS(inc.Opened), truncateMS(inc.Changed)
	if !inc.Open() {
		inc.Ended = truncateMS(inc.Ended)
	}
	inc.AckUntil = minTime(truncateMSOrZero(inc.AckUntil), l.now.Add(l.m.c.AckMax))
	if inc.AckedBy == "" {
		inc.AckUntil = time.Time{}
	}
	l.m.incidents[inc.ID] = &inc
	if !inc.Open() {
		return
	}
	if older, ok := l.openByKey[inc.Key]; ok {
		l.warnf("incident %q is closed: a newer one of its rule and pool is open", older)
		l.m.duplicates = append(l.m.duplicates, older)
	}
	l.openByKey[inc.Key] = inc.ID
}

// clampLevel returns the nearest level that an incident may have.
func (l *loader) clampLevel(v Level) Level { return min(max(v, LevelWarn), LevelPage) }

func (l *loader) state(s State) {
	if _, twice := l.m.states[s.Key]; twice {
		l.warnf("a state of rule %q in pool %q is ignored: it is repeated", s.Key.Rule, s.Key.Pool)
		return
	}
	for _, d := range []*time.Duration{&s.WarnFor, &s.PageFor, &s.ClearFor, &s.BelowPageFor, &s.IdleFor, &s.MissingFor} {
		*d = min(max(*d, 0), maxStoredDuration)
	}
	for _, at := range []*time.Time{&s.LastResolved, &s.LastNotified, &s.LastDigest} {
		*at = minTime(truncateMSOrZero(*at), l.now)
	}
	s.FlapTimes = l.flapTimes(s.FlapTimes)
	l.m.states[s.Key] = &ruleState{State: l.reconcile(s), last: Value{Quality: Missing}}
}

func (l *loader) flapTimes(saved []time.Time) []time.Time {
	var flaps []time.Time
	for _, at := range saved {
		flaps = append(flaps, minTime(truncateMSOrZero(at), l.now))
	}
	slices.SortFunc(flaps, time.Time.Compare)
	return flaps[max(0, len(flaps)-maxFlapTimes):]
}

// reconcile makes a state agree with its incident.
func (l *loader) reconcile(s State) State {
	id, open := l.openByKey[s.Key]
	inc, known := l.m.incidents[s.Incident]
	switch {
	case open:
		if s.Incident != id || s.Phase != Firing && s.Phase != Recovering {
			l.warnf("the state of rule %q in pool %q is taken as firing: its incident %q is open", s.Key.Rule,
				s.Key.Pool, id)
			s.Phase, s.Incident = Firing, id
		}
		s.Level = l.m.incidents[id].Level
		if s.LastNotified.IsZero() {
			s.LastNotified = l.now
		}
		return s
	case s.Phase > Pending:
		l.warnf("the state of rule %q in pool %q is reset: it is firing without an open incident", s.Key.Rule,
			s.Key.Pool)
		return State{Key: s.Key}
	case s.Incident != "" && (!known || inc.Key != s.Key):
		s.Incident, s.LastResolved = "", time.Time{}
	}
	s.Level = LevelNone
	return s
}

// addMissingStates adds states for open incidents without one.
func (l *loader) addMissingStates() {
	for _, id := range l.m.incidentIDsByAge() {
		inc := l.m.incidents[id]
		if _, ok := l.m.states[inc.Key]; ok || l.openByKey[inc.Key] != id {
			continue
		}
		l.warnf("incident %q has no state and is taken as firing", id)
		l.m.states[inc.Key] = &ruleState{
			State: State{Key: inc.Key, Phase: Firing, Level: inc.Level, Incident: id, LastNotified: l.now},
			last:  Value{Quality: Missing},
		}
	}
}

func (l *loader) silence(s Silence) {
	twice := slices.ContainsFunc(l.m.silences, func(o Silence) bool { return o.ID == s.ID })
	if s.EndHandled || s.ID == "" || twice || len(l.m.silences) >= maxSilences {
		l.warnf("silence %q is ignored: it is ended, repeated, without an ID, or one too many", s.ID)
		return
	}
	s.From, s.Until = truncateMS(s.From), minTime(truncateMS(s.Until), l.now.Add(l.m.c.SilenceMax))
	l.m.silences = append(l.m.silences, s)
	slices.SortStableFunc(l.m.silences, func(a, b Silence) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID))
	})
}

func truncateMSOrZero(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return truncateMS(t)
}
