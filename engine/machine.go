package engine

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Machine owns all states, open incidents and silences. It does no I/O, reads no
// clock, and is not safe for use by several goroutines: Engine is.
//
// Everything that changes something returns it as a Batch: the machine has
// changed already, and recording it is the caller's business.
type Machine struct {
	c          Config
	states     map[Key]*ruleState
	incidents  map[string]*Incident
	silences   []Silence // not lifted, in the order in which they were made
	duplicates []string  // open incidents that the record had no place for
}

// NewMachine returns a Machine that remembers nothing.
func NewMachine(c Config) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("engine settings: %w", err)
	}
	if c.NewID == nil {
		c.NewID = newID
	}
	return &Machine{c: c, states: make(map[Key]*ruleState), incidents: make(map[string]*Incident)}, nil
}

// Step takes one evaluation into account: the values that the rules' signals have
// now, and the monotonic time since the step before, 0 at the first step after a
// start. Of elapsed no more than two intervals count. A rule without a value is
// missing its signal; a state without a rule is resolved as deleted.
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
	asked, watching := splitRules(rules)
	for _, r := range asked {
		live[r.Key()] = true
		v, ok := values[r.Key()]
		if !ok {
			v = Value{Quality: Missing}
		}
		t.evaluateRule(r, v)
	}
	for _, r := range watching {
		live[r.Key()] = true
		t.evaluateRule(t.missingSignals(r, asked))
	}
	return live
}

// closeRemovedRules ends what belongs to rules and pools that are gone.
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

// closeDuplicates ends open incidents that contradict another one of their key: a
// key has one at most.
func (t *txn) closeDuplicates() {
	for _, id := range t.m.duplicates {
		inc := t.incident(id)
		inc.Ended, inc.Resolution = t.now, RuleDeleted
		t.emit(inc, Event{Kind: EventResolved})
	}
	t.m.duplicates = nil
}

func sortedKeys(slots map[Key]*ruleState) []Key {
	return slices.SortedFunc(maps.Keys(slots), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Rule, b.Rule))
	})
}

// Incidents returns the open incidents, and those that may be reopened, in the
// order in which they were opened.
func (m *Machine) Incidents() []Incident {
	all := make([]Incident, 0, len(m.incidents))
	for _, inc := range m.incidents {
		all = append(all, *inc)
	}
	slices.SortFunc(all, func(a, b Incident) int {
		return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// States returns the states that say anything, sorted by pool and rule.
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

// Silences returns the silences whose end has not been dealt with.
func (m *Machine) Silences() []Silence { return slices.Clone(m.silences) }

// RuleStatus is how a rule stands.
type RuleStatus struct {
	Rule  Rule
	State State
	Value Value // at the latest evaluation
}

// Statuses returns how the rules stand, and those that watch their signals.
func (m *Machine) Statuses(rules []Rule) []RuleStatus {
	asked, watching := splitRules(rules)
	all := make([]RuleStatus, 0, len(asked)+len(watching))
	for _, r := range append(asked, watching...) {
		status := RuleStatus{Rule: r, State: State{Key: r.Key()}, Value: Value{Quality: Missing}}
		if s, ok := m.states[r.Key()]; ok {
			status.State, status.Value = s.State, s.last
		}
		all = append(all, status)
	}
	return all
}

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
		return s.Covers(key) && s.ActiveAt(t.now)
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
