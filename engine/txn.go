package engine

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"
)

// txn is one change of the machine while it is being made. It remembers how
// whatever it touches was before, so that only what differs is recorded.
type txn struct {
	m       *Machine
	now     time.Time
	elapsed time.Duration

	touchedStates    []Key // touched, in order
	statesBefore     map[Key]State
	touchedIncidents []string
	incidentsBefore  map[string]Incident
	silences         []Silence // changed
	events           []Event
}

func (m *Machine) begin(now time.Time) *txn {
	return &txn{
		m: m, now: truncateMS(now),
		statesBefore: make(map[Key]State), incidentsBefore: make(map[string]Incident),
	}
}

// truncateMS returns a time as the record keeps it.
func truncateMS(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// state returns a key's state for changing.
func (t *txn) state(key Key) *ruleState {
	s, ok := t.m.states[key]
	if !ok {
		s = &ruleState{State: State{Key: key}}
		t.m.states[key] = s
	}
	if _, ok := t.statesBefore[key]; !ok {
		t.statesBefore[key] = s.State
		t.touchedStates = append(t.touchedStates, key)
	}
	return s
}

// incident returns an incident for changing, nil if there is none.
func (t *txn) incident(id string) *Incident {
	inc, ok := t.m.incidents[id]
	if !ok {
		return nil
	}
	if _, ok := t.incidentsBefore[id]; !ok {
		t.incidentsBefore[id] = *inc
		t.touchedIncidents = append(t.touchedIncidents, id)
	}
	return inc
}

// create puts a new incident in place.
func (t *txn) create(inc Incident) *Incident {
	t.m.incidents[inc.ID] = &inc
	t.incidentsBefore[inc.ID] = Incident{}
	t.touchedIncidents = append(t.touchedIncidents, inc.ID)
	return &inc
}

// emit adds an event to an incident.
func (t *txn) emit(inc *Incident, e Event) {
	inc.Seq++
	e.ID, e.Incident, e.Seq, e.At = t.m.c.NewID(), inc.ID, inc.Seq, t.now
	e.Level, e.Value = inc.Level, inc.Value
	e.Muted = t.muted(inc.Key)
	if e.Muted {
		inc.PendingUnmute = true
	} else {
		inc.Notified = true
	}
	t.events = append(t.events, e)
}

// muted says whether a silence covers a key now.
func (t *txn) muted(key Key) bool {
	return slices.ContainsFunc(t.m.silences, func(s Silence) bool {
		return s.Covers(key) && s.activeAt(t.now)
	})
}

// commit returns what has changed, and forgets what need not be remembered.
func (t *txn) commit() Batch {
	b := Batch{Events: t.events, Silences: t.silences}
	for _, key := range t.touchedStates {
		s := t.m.states[key].State
		if !reflect.DeepEqual(s, t.statesBefore[key]) {
			b.States = append(b.States, s)
		}
	}
	for _, id := range t.touchedIncidents {
		if inc := *t.m.incidents[id]; inc != t.incidentsBefore[id] {
			b.Incidents = append(b.Incidents, inc)
		}
	}
	t.dropUnreferenced()
	return b
}

// dropUnreferenced lets go of states that say nothing and have no rule, and of incidents
// that are over for good.
func (t *txn) dropUnreferenced() {
	maps.DeleteFunc(t.m.states, func(_ Key, s *ruleState) bool { return s.band == bandNone && s.Blank() })
	named := make(map[string]bool, len(t.m.states))
	for _, s := range t.m.states {
		named[s.Incident] = true
	}
	maps.DeleteFunc(t.m.incidents, func(id string, inc *Incident) bool {
		return !inc.Open() && !inc.PendingUnmute && !named[id]
	})
}

// incidentIDsByAge returns the IDs of all incidents in the order in which they were opened.
func (m *Machine) incidentIDsByAge() []string {
	return slices.SortedFunc(maps.Keys(m.incidents), func(a, b string) int {
		return cmp.Or(m.incidents[a].Opened.Compare(m.incidents[b].Opened), cmp.Compare(a, b))
	})
}
