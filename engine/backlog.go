package engine

import "slices"

// maxUnsaved bounds the events that wait for the journal, and the incidents that
// are over.
const maxUnsaved = 10_000

// backlog is what waits for the journal: of everything that has a state of its
// own the latest, and all events in order. Whoever reads it in one piece sees the
// same as one who had read it step by step.
type backlog struct {
	states    []State
	incidents []Incident
	silences  []Silence
	events    []pendingEvent
}

type pendingEvent struct {
	Event
	reported bool // people were told of it already, or need not be
}

// add puts a batch behind what waits, and returns how many events did not fit.
func (l *backlog) add(b Batch) int {
	more := backlog{states: b.States, incidents: b.Incidents, silences: b.Silences}
	for _, e := range b.Events {
		more.events = append(more.events, pendingEvent{Event: e})
	}
	return l.merge(more)
}

func (l *backlog) merge(more backlog) int {
	l.states = mergeLatest(l.states, more.states, func(s State) Key { return s.Key })
	l.incidents = mergeLatest(l.incidents, more.incidents, func(i Incident) string { return i.ID })
	l.silences = mergeLatest(l.silences, more.silences, func(s Silence) string { return s.ID })
	l.events = append(l.events, more.events...)
	return l.trim()
}

// mergeLatest returns all, with those of more in the place of those that they follow.
func mergeLatest[T any, K comparable](all, more []T, key func(T) K) []T {
	all = slices.Clone(all)
	at := make(map[K]int, len(all)+len(more))
	for n, v := range all {
		at[key(v)] = n
	}
	for _, v := range more {
		n, ok := at[key(v)]
		if !ok {
			at[key(v)] = len(all)
			all = append(all, v)
			continue
		}
		all[n] = v
	}
	return all
}

// trim drops what does not fit: at first events that only tell how it went, then
// the oldest. A tenth is dropped at once, so that it is not done at every step.
func (l *backlog) trim() int {
	over := len(l.events) - maxUnsaved
	if over <= 0 {
		return 0
	}
	over += maxUnsaved / 10
	before := len(l.events)
	l.events = slices.DeleteFunc(slices.Clone(l.events), func(e pendingEvent) bool {
		if over == 0 || e.Kind.changesIncident() {
			return false
		}
		over--
		return true
	})
	l.events = l.events[over:]
	l.trimIncidents()
	return before - len(l.events)
}

// trimIncidents drops the oldest of too many incidents that are over.
func (l *backlog) trimIncidents() {
	over := len(l.incidents) - maxUnsaved
	l.incidents = slices.DeleteFunc(l.incidents, func(i Incident) bool {
		if over <= 0 || i.Open() {
			return false
		}
		over--
		return true
	})
	kept := make(map[string]bool, len(l.incidents))
	for _, i := range l.incidents {
		kept[i.ID] = true
	}
	l.events = slices.DeleteFunc(l.events, func(e pendingEvent) bool { return !kept[e.Incident] })
}

// changesIncident says whether an incident is not the same after such an event.
func (k EventKind) changesIncident() bool {
	switch k {
	case EventOpened, EventEscalated, EventReopened, EventResolved:
		return true
	default:
		return false
	}
}

func (l *backlog) batch() Batch {
	b := Batch{States: l.states, Incidents: l.incidents, Silences: l.silences}
	for _, e := range l.events {
		b.Events = append(b.Events, e.Event)
	}
	return b
}

// takeUnreportedPages returns the pages that wait and were not handed over before: events
// that are to be sent, of incidents that are or were a page. That signals are
// missing counts as one: a full disk takes the samples too, and with them the
// signals of every rule that could page.
func (l *backlog) takeUnreportedPages() Batch {
	var b Batch
	pages := make(map[string]Incident)
	for _, i := range l.incidents {
		if i.Peak == LevelPage || i.Key.Rule == SignalMissing {
			pages[i.ID] = i
		}
	}
	told := make(map[string]bool)
	for n := range l.events {
		e := &l.events[n]
		inc, isPage := pages[e.Incident]
		if isPage && !e.reported && !e.Muted {
			b.Events = append(b.Events, e.Event)
			told[inc.ID] = true
		}
		e.reported = true
	}
	for _, i := range l.incidents {
		if told[i.ID] {
			b.Incidents = append(b.Incidents, i)
		}
	}
	return b
}
