package engine

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"
)

// turn is one change of the machine while it is being made. It remembers how
// whatever it touches was before, so that only what differs is recorded.
type turn struct {
	m       *Machine
	now     time.Time
	elapsed time.Duration

	keys      []Key // touched, in order
	states    map[Key]State
	ids       []string
	incidents map[string]Incident
	silences  []Silence // changed
	events    []Event
}

func (m *Machine) begin(now time.Time) *turn {
	return &turn{
		m: m, now: moment(now),
		states: make(map[Key]State), incidents: make(map[string]Incident),
	}
}

// moment returns a time as the record keeps it.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// slot returns a key's state for changing.
func (t *turn) slot(key Key) *slot {
	s, ok := t.m.slots[key]
	if !ok {
		s = &slot{State: State{Key: key}}
		t.m.slots[key] = s
	}
	if _, ok := t.states[key]; !ok {
		t.states[key] = s.State
		t.keys = append(t.keys, key)
	}
	return s
}

// incident returns an incident for changing, nil if there is none.
func (t *turn) incident(id string) *Incident {
	inc, ok := t.m.incidents[id]
	if !ok {
		return nil
	}
	if _, ok := t.incidents[id]; !ok {
		t.incidents[id] = *inc
		t.ids = append(t.ids, id)
	}
	return inc
}

// create puts a new incident in place.
func (t *turn) create(inc Incident) *Incident {
	t.m.incidents[inc.ID] = &inc
	t.incidents[inc.ID] = Incident{}
	t.ids = append(t.ids, inc.ID)
	return &inc
}

// emit adds an event to an incident.
func (t *turn) emit(inc *Incident, e Event) {
	inc.Seq++
	e.ID, e.Incident, e.Seq, e.At = t.m.c.NewID(), inc.ID, inc.Seq, t.now
	e.Level, e.Value = inc.Level, inc.Value
	e.Muted = t.muted(inc.Key)
	if e.Muted {
		inc.Due = true
	} else {
		inc.Told = true
	}
	t.events = append(t.events, e)
}

// muted says whether a silence covers a key now.
func (t *turn) muted(key Key) bool {
	return slices.ContainsFunc(t.m.silences, func(s Silence) bool {
		return s.Covers(key) && s.runs(t.now)
	})
}

// end returns what has changed, and forgets what need not be remembered.
func (t *turn) end() Batch {
	b := Batch{Events: t.events, Silences: t.silences}
	for _, key := range t.keys {
		s := t.m.slots[key].State
		if !reflect.DeepEqual(s, t.states[key]) {
			b.States = append(b.States, s)
		}
	}
	for _, id := range t.ids {
		if inc := *t.m.incidents[id]; inc != t.incidents[id] {
			b.Incidents = append(b.Incidents, inc)
		}
	}
	t.forget()
	return b
}

// forget lets go of states that say nothing and have no rule, and of incidents
// that are over for good.
func (t *turn) forget() {
	maps.DeleteFunc(t.m.slots, func(_ Key, s *slot) bool { return s.zone == zoneNone && s.Blank() })
	named := make(map[string]bool, len(t.m.slots))
	for _, s := range t.m.slots {
		named[s.Incident] = true
	}
	maps.DeleteFunc(t.m.incidents, func(id string, inc *Incident) bool {
		return !inc.Open() && !inc.Due && !named[id]
	})
}

// byAge returns the IDs of all incidents in the order in which they were opened.
func (m *Machine) byAge() []string {
	return slices.SortedFunc(maps.Keys(m.incidents), func(a, b string) int {
		return cmp.Or(m.incidents[a].Opened.Compare(m.incidents[b].Opened), cmp.Compare(a, b))
	})
}
