package engine

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Machine owns all states, open incidents and silences. It does no I/O and reads no clock. It is for one goroutine;
// Engine is safe for concurrent use.
//
// A method that changes something returns the change as a Batch, which the caller records.
type Machine struct {
	c          Config
	states     map[Key]*ruleState
	incidents  map[string]*Incident
	silences   []Silence // active and future ones, in the order in which they were made
	duplicates []string  // open incidents in the record beside a newer one of the same key
}

// NewMachine returns a Machine without states and incidents.
func NewMachine(c Config) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("engine settings: %w", err)
	}
	if c.NewID == nil {
		c.NewID = newID
	}
	return &Machine{c: c, states: make(map[Key]*ruleState), incidents: make(map[string]*Incident)}, nil
}

// Step applies one evaluation: the values of the rules' signals, and the monotonic time since the previous step, 0 at
// the first one after a start, of which at most two intervals count. A rule without a value has a missing signal; the
// incident of a state without a rule is resolved as deleted.
func (m *Machine) Step(now time.Time, elapsed time.Duration, rules []Rule, values map[Key]Value) Batch {
	t := m.begin(now)
	t.elapsed = min(max(elapsed, 0), 2*m.c.Interval)
	t.closeDuplicates()
	live := t.evaluateRules(rules, values)
	t.closeRemovedRules(live)
	t.endSilences()
	t.maintain()
	return t.commit()
}

// evaluateRules advances the states of all rules and returns their keys.
func (t *txn) evaluateRules(rules []Rule, values map[Key]Value) map[Key]bool {
	live := make(map[Key]bool, len(rules))
	signalRules, missingRules := splitRules(rules)
	for _, r := range signalRules {
		live[r.Key()] = true
		v, ok := values[r.Key()]
		if !ok {
			v = Value{Quality: Missing}
		}
		t.evaluateRule(r, v)
	}
	for _, r := range missingRules {
		live[r.Key()] = true
		t.evaluateRule(t.missingSignals(r, signalRules))
	}
	return live
}

// closeRemovedRules resolves the incidents of removed rules and pools.
func (t *txn) closeRemovedRules(live map[Key]bool) {
	for _, key := range sortedKeys(t.m.states) {
		if live[key] {
			continue
		}
		s := t.state(key)
		if s.open() {
			t.resolve(s, RuleDeleted)
		}
		s.reset()
		s.band, s.last = bandNone, Value{Quality: Missing}
	}
}

// closeDuplicates resolves open incidents beside a newer one of the same key.
func (t *txn) closeDuplicates() {
	for _, id := range t.m.duplicates {
		inc := t.incident(id)
		inc.Ended, inc.Resolution = t.now, RuleDeleted
		t.emit(inc, Event{Kind: EventResolved})
	}
	t.m.duplicates = nil
}

func sortedKeys(states map[Key]*ruleState) []Key {
	return slices.SortedFunc(maps.Keys(states), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Rule, b.Rule))
	})
}

// Incidents returns the open incidents, and those that may be reopened, the one opened first in front.
func (m *Machine) Incidents() []Incident {
	all := make([]Incident, 0, len(m.incidents))
	for _, id := range m.incidentIDsByAge() {
		all = append(all, *m.incidents[id])
	}
	return all
}

// States returns the states that are not blank, sorted by pool and rule.
func (m *Machine) States() []State {
	all := make([]State, 0, len(m.states))
	for _, key := range sortedKeys(m.states) {
		s := m.states[key].State
		s.FlapTimes = slices.Clone(s.FlapTimes)
		if !s.Blank() {
			all = append(all, s)
		}
	}
	return all
}

// Silences returns the active and future silences.
func (m *Machine) Silences() []Silence { return slices.Clone(m.silences) }

// RuleStatus is a rule with its state and value.
type RuleStatus struct {
	Rule  Rule
	State State
	Value Value // at the latest evaluation
}

// Statuses returns the status of the rules and of those that watch their signals.
func (m *Machine) Statuses(rules []Rule) []RuleStatus {
	signalRules, missingRules := splitRules(rules)
	all := make([]RuleStatus, 0, len(signalRules)+len(missingRules))
	for _, r := range append(signalRules, missingRules...) {
		status := RuleStatus{Rule: r, State: State{Key: r.Key()}, Value: Value{Quality: Missing}}
		if s, ok := m.states[r.Key()]; ok {
			status.State, status.Value = s.State, s.last
		}
		all = append(all, status)
	}
	return all
}

// txn is one change of the machine in progress. It remembers the previous value of everything that it touches, so that
// only differences are recorded.
type txn struct {
	m       *Machine
	now     time.Time
	elapsed time.Duration

	touchedStates    []Key // keys of the states that were read for changing, each once, the first one first
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

// truncateMS returns a time as it is recorded: in UTC, to the millisecond.
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

// create adds a new incident.
func (t *txn) create(inc Incident) *Incident {
	t.m.incidents[inc.ID] = &inc
	t.incidentsBefore[inc.ID] = Incident{}
	t.touchedIncidents = append(t.touchedIncidents, inc.ID)
	return &inc
}

// emit adds an event to an incident, with the incident's level and value.
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
		return s.Covers(key) && s.ActiveAt(t.now)
	})
}

// commit returns what has changed, and drops what is no longer needed.
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

// dropUnreferenced drops blank states without a rule, and resolved incidents that cannot be reopened.
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

// incidentIDsByAge returns the IDs of all incidents, the one opened first in front.
func (m *Machine) incidentIDsByAge() []string {
	return slices.SortedFunc(maps.Keys(m.incidents), func(a, b string) int {
		return cmp.Or(m.incidents[a].Opened.Compare(m.incidents[b].Opened), cmp.Compare(a, b))
	})
}
