package engine

import (
	"cmp"
	"fmt"
	"maps"
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
