package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxDwell bounds what a record may say about lengths of time.
const maxDwell = 10 * 365 * 24 * time.Hour

// Load takes over what was saved, into a machine that has made no step yet. What
// cannot be (an open incident without a state, two of one key, times that have
// not come yet) is put right, and said in the result.
func (m *Machine) Load(now time.Time, saved Saved) []string {
	l := loader{m: m, now: moment(now), mine: make(map[Key]string)}
	incidents := slices.Clone(saved.Incidents)
	slices.SortStableFunc(incidents, func(a, b Incident) int { return a.Opened.Compare(b.Opened) })
	for _, inc := range incidents {
		l.incident(inc)
	}
	for _, s := range saved.States {
		l.state(s)
	}
	l.orphans()
	for _, s := range saved.Silences {
		l.silence(s)
	}
	return l.wrong
}

type loader struct {
	m     *Machine
	now   time.Time
	mine  map[Key]string // the open incident of a key
	wrong []string
}

func (l *loader) complain(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

func (l *loader) incident(inc Incident) {
	if _, twice := l.m.incidents[inc.ID]; inc.ID == "" || twice {
		l.complain("incident %q is left out: its ID is empty or there twice", inc.ID)
		return
	}
	inc.Level = l.level(inc.Level)
	inc.Peak = max(l.level(inc.Peak), inc.Level)
	inc.Seq = max(inc.Seq, 0)
	if !finite(inc.Value) || !finite(inc.Threshold) {
		inc.Value, inc.Threshold = 0, 0
	}
	inc.Opened, inc.Changed = moment(inc.Opened), moment(inc.Changed)
	if !inc.Open() {
		inc.Ended = moment(inc.Ended)
	}
	inc.AckUntil = earlier(momentOrZero(inc.AckUntil), l.now.Add(l.m.c.AckMax))
	if inc.AckedBy == "" {
		inc.AckUntil = time.Time{}
	}
	l.m.incidents[inc.ID] = &inc
	if !inc.Open() {
		return
	}
	if older, ok := l.mine[inc.Key]; ok {
		l.complain("incident %q is closed: a newer one of its rule and pool is open", older)
		l.m.strays = append(l.m.strays, older)
	}
	l.mine[inc.Key] = inc.ID
}

// level returns a level that an incident may have.
func (l *loader) level(v Level) Level { return min(max(v, LevelWarn), LevelPage) }

func (l *loader) state(s State) {
	if _, twice := l.m.slots[s.Key]; twice {
		l.complain("a state of rule %q in pool %q is left out: it is there twice", s.Key.Rule, s.Key.Pool)
		return
	}
	for _, d := range []*time.Duration{&s.WarnFor, &s.PageFor, &s.ClearFor, &s.CalmFor, &s.IdleFor, &s.LostFor} {
		*d = min(max(*d, 0), maxDwell)
	}
	for _, at := range []*time.Time{&s.Resolved, &s.Reminded, &s.Digested} {
		*at = earlier(momentOrZero(*at), l.now)
	}
	s.Flips = l.flips(s.Flips)
	l.m.slots[s.Key] = &slot{State: l.agree(s), last: Value{Knowing: Missing}}
}

func (l *loader) flips(saved []time.Time) []time.Time {
	var flips []time.Time
	for _, at := range saved {
		flips = append(flips, earlier(momentOrZero(at), l.now))
	}
	slices.SortFunc(flips, time.Time.Compare)
	return flips[max(0, len(flips)-maxFlips):]
}

// agree makes a state say what its incident says.
func (l *loader) agree(s State) State {
	id, open := l.mine[s.Key]
	inc, known := l.m.incidents[s.Incident]
	switch {
	case open:
		if s.Incident != id || s.Phase != Firing && s.Phase != Recovering {
			l.complain("the state of rule %q in pool %q is taken as firing: its incident %q is open", s.Key.Rule, s.Key.Pool, id)
			s.Phase, s.Incident = Firing, id
		}
		s.Level = l.m.incidents[id].Level
		if s.Reminded.IsZero() {
			s.Reminded = l.now
		}
		return s
	case s.Phase > Pending:
		l.complain("the state of rule %q in pool %q starts afresh: it is firing without an open incident", s.Key.Rule, s.Key.Pool)
		return State{Key: s.Key}
	case s.Incident != "" && (!known || inc.Key != s.Key):
		s.Incident, s.Resolved = "", time.Time{}
	}
	s.Level = LevelNone
	return s
}

// orphans makes states for open incidents that have none.
func (l *loader) orphans() {
	for _, id := range l.m.byAge() {
		inc := l.m.incidents[id]
		if _, ok := l.m.slots[inc.Key]; ok || l.mine[inc.Key] != id {
			continue
		}
		l.complain("incident %q has no state and is taken as firing", id)
		l.m.slots[inc.Key] = &slot{
			State: State{Key: inc.Key, Phase: Firing, Level: inc.Level, Incident: id, Reminded: l.now},
			last:  Value{Knowing: Missing},
		}
	}
}

func (l *loader) silence(s Silence) {
	twice := slices.ContainsFunc(l.m.silences, func(o Silence) bool { return o.ID == s.ID })
	if s.Lifted || s.ID == "" || twice || len(l.m.silences) >= maxSilences {
		l.complain("silence %q is left out: it is lifted, there twice, without an ID, or one too many", s.ID)
		return
	}
	s.From, s.Until = moment(s.From), earlier(moment(s.Until), l.now.Add(l.m.c.SilenceMax))
	l.m.silences = append(l.m.silences, s)
	slices.SortStableFunc(l.m.silences, func(a, b Silence) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID))
	})
}

func momentOrZero(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return moment(t)
}
