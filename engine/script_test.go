package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	epoch   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ruleKey = Key{Rule: "age", Pool: "p"}
)

// ageRule clears below 12, warns at 15 for 5 s, pages at 25 for 10 s.
func ageRule() Rule {
	return Rule{
		Name: "age", Pool: "p", Unit: "s", Summary: "old", Impact: "waits", Runbook: "age", Action: "rollback",
		Warn: Threshold{At: 15, For: 5 * time.Second, Set: true}, Page: Threshold{At: 25, For: 10 * time.Second, Set: true},
		Clear: Clear{Below: 12, For: 5 * time.Second},
	}
}

// Values by what they mean to ageRule.
var (
	low      = Value{V: 3}
	hold     = Value{V: 13}
	warn     = Value{V: 15}
	page     = Value{V: 25}
	idle     = Value{Quality: Idle}
	noSignal = Value{Quality: Missing}
)

// script drives a machine second by second and writes down what it says.
type script struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	rules   []Rule
	emitted []string
	all     []Event
	store   *journalStore
	next    time.Duration // elapsed of the next step
}

func testConfig() Config {
	c := DefaultConfig()
	n := 0
	c.NewID = func() string { n++; return fmt.Sprintf("id-%06d", n) }
	return c
}

func newScript(t *testing.T, edit func(*Config), rules ...Rule) *script {
	t.Helper()
	c := testConfig()
	if edit != nil {
		edit(&c)
	}
	m, err := NewMachine(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) == 0 {
		rules = []Rule{ageRule()}
	}
	return &script{t: t, m: m, now: epoch, rules: rules, store: newJournalStore()}
}

// run makes n steps of one interval with one value for ageRule.
func (s *script) run(n int, v Value) *script {
	for range n {
		s.step(map[Key]Value{ruleKey: v})
	}
	return s
}

func (s *script) step(values map[Key]Value) {
	s.record(s.m.Step(s.now, s.next, s.rules, values))
	s.next = s.m.c.Interval
	s.now = s.now.Add(s.m.c.Interval)
}

func (s *script) record(b Batch) {
	s.store.save(s.t, b)
	for _, e := range b.Events {
		s.all = append(s.all, e)
		inc := s.store.incidents[e.Incident]
		line := fmt.Sprintf("%d %s", int(e.At.Sub(epoch).Seconds()), e.Kind)
		if inc.Key.Rule != ruleKey.Rule {
			line += " " + inc.Key.Rule
		}
		line += " " + levelName(e.Level)
		if e.Kind == EventResolved {
			line += " " + string(inc.Resolution)
		}
		if e.Muted {
			line += " muted"
		}
		if e.Digested {
			line += " digested"
		}
		if e.Count > 0 {
			line += fmt.Sprintf(" x%d", e.Count)
		}
		s.emitted = append(s.emitted, line)
	}
}

// restart replaces the machine by one that loads what was saved, after a downtime.
func (s *script) restart(downtime time.Duration) *script {
	s.t.Helper()
	m, err := NewMachine(s.m.c)
	if err != nil {
		s.t.Fatal(err)
	}
	if wrong := m.Load(s.now.Add(downtime), s.store.load()); len(wrong) > 0 {
		s.t.Fatalf("the record contradicts itself: %q", wrong)
	}
	s.m, s.now, s.next = m, s.now.Add(downtime), 0
	return s
}

func (s *script) wantEvents(lines ...string) {
	s.t.Helper()
	if diff := cmp.Diff(lines, s.emitted); diff != "" {
		s.t.Fatalf("events (-want +got):\n%s", diff)
	}
}

func (s *script) incident() Incident {
	s.t.Helper()
	all := s.m.Incidents()
	if len(all) == 0 {
		s.t.Fatal("there is no incident")
	}
	return all[len(all)-1]
}

func (s *script) ack(by string, length time.Duration) AckResult {
	s.t.Helper()
	a, b, err := s.m.Ack(s.now, s.incident().ID, by, length)
	if err != nil {
		s.t.Fatal(err)
	}
	s.record(b)
	return a
}

func (s *script) silence(pool string, length time.Duration) Silence {
	s.t.Helper()
	done, b, err := s.m.Silence(s.now, Silence{Rule: "age", Pool: pool, Until: s.now.Add(length), By: "ann", Reason: "work"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.record(b)
	return done.Silence
}

func levelName(l Level) string { return []string{"none", "warn", "page"}[l] }

// journalStore keeps batches as a journal does: by key, and events for good.
type journalStore struct {
	states    map[Key]State
	incidents map[string]Incident
	silences  map[string]Silence
	events    []Event
}

func newJournalStore() *journalStore {
	return &journalStore{states: map[Key]State{}, incidents: map[string]Incident{}, silences: map[string]Silence{}}
}

func (d *journalStore) save(t *testing.T, b Batch) {
	t.Helper()
	for _, s := range b.States {
		d.states[s.Key] = s
		if s.Blank() {
			delete(d.states, s.Key)
		}
	}
	for _, i := range b.Incidents {
		if math.IsNaN(i.Value) || math.IsInf(i.Value, 0) {
			t.Fatalf("incident value %v", i.Value)
		}
		d.incidents[i.ID] = i
	}
	for _, s := range b.Silences {
		d.silences[s.ID] = s
	}
	for _, e := range b.Events {
		if _, ok := d.incidents[e.Incident]; !ok {
			t.Fatalf("event %+v without its incident", e)
		}
	}
	d.events = append(d.events, b.Events...)
}

// load returns what SavedState promises, in no useful order.
func (d *journalStore) load() SavedState {
	var saved SavedState
	named := map[string]bool{}
	for _, s := range d.states {
		s.FlapTimes = slices.Clone(s.FlapTimes)
		saved.States = append(saved.States, s)
		named[s.Incident] = true
	}
	for _, i := range d.incidents {
		if i.Open() || i.PendingUnmute || named[i.ID] {
			saved.Incidents = append(saved.Incidents, i)
		}
	}
	for _, s := range d.silences {
		if !s.EndHandled {
			saved.Silences = append(saved.Silences, s)
		}
	}
	return saved
}

func countKind(said []string, kind EventKind) int {
	n := 0
	for _, line := range said {
		if strings.Fields(line)[1] == string(kind) {
			n++
		}
	}
	return n
}
