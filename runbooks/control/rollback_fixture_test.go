package control_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

var errDead = errors.New("the process is dead")

// killableStore is what survives a process: modes, states, audit entries, annotations. A
// process can be killed at each use of it.
type killableStore struct {
	fakeJournal
	storeMu            sync.Mutex
	guards             map[string]control.RollbackState
	entries            map[string]control.AuditEntry
	annotations        []engine.Event
	reminded           map[string]control.Reminder
	unrecordedWarnings []control.ModeChange // rollbacks that OnUnrecorded reported

	usesLeft int  // uses until the kill; -1: never
	after    bool // the use at which it dies still has its effect
	dead     bool
	full     bool // every write fails; the process lives
	log      []string
}

func newKillableStore() *killableStore {
	return &killableStore{
		fakeJournal: *newFakeJournal(), guards: map[string]control.RollbackState{}, entries: map[string]control.AuditEntry{},
		reminded: map[string]control.Reminder{}, usesLeft: -1,
	}
}

// write has an effect, unless the process is dead by then.
func (d *killableStore) write(what string, effect func()) error {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	if d.dead {
		return errDead
	}
	if d.full {
		return errDiskFull
	}
	if d.usesLeft == 0 {
		d.dead = true
		d.log = append(d.log, "killed at "+what)
		if d.after {
			effect()
		}
		return errDead
	}
	d.usesLeft = max(d.usesLeft-1, -1)
	d.log = append(d.log, what)
	effect()
	return nil
}

func (d *killableStore) RecordChanges(ctx context.Context, changes []control.ModeChange, seen int64) error {
	var err error
	return errors.Join(d.write("change", func() { err = d.fakeJournal.RecordChanges(ctx, changes, seen) }), err)
}

func (d *killableStore) SaveRollbackState(_ context.Context, g control.RollbackState) error {
	g.Rollbacks = slices.Clone(g.Rollbacks)
	return d.write("guard "+string(g.Phase), func() { d.guards[g.Pool] = g })
}

func (d *killableStore) RollbackStates(context.Context) ([]control.RollbackState, error) {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	var all []control.RollbackState
	for _, g := range d.guards {
		all = append(all, g)
	}
	return all, nil
}

func (d *killableStore) HasAnnotation(_ context.Context, incident, kind, actor string, since time.Time) (bool, error) {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	return slices.ContainsFunc(d.annotations, func(e engine.Event) bool {
		return e.Incident == incident && string(e.Kind) == kind && e.By == actor && !e.At.Before(since)
	}), nil
}

func (d *killableStore) Append(e control.AuditEntry) {
	_ = d.write("entry "+string(e.Result), func() {
		if _, there := d.entries[e.ID]; !there {
			d.entries[e.ID] = e
		}
	})
}

func (d *killableStore) saveReminder(_ context.Context, r control.Reminder) error {
	return d.write("reminder", func() { d.reminded[r.ChangeID+" "+time.Duration(r.Hour).String()] = r })
}

func (d *killableStore) recordWarning(c control.ModeChange) {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	d.unrecordedWarnings = append(d.unrecordedWarnings, c)
}

func (d *killableStore) warnings() []control.ModeChange {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	return slices.Clone(d.unrecordedWarnings)
}

func (d *killableStore) reminders() map[string]control.Reminder {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	return maps.Clone(d.reminded)
}

func (d *killableStore) auditEntries() map[string]control.AuditEntry {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	return maps.Clone(d.entries)
}

func (d *killableStore) rollbackState(pool string) control.RollbackState {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	return d.guards[pool]
}

func (d *killableStore) setFull(full bool) {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	d.full = full
}

// killAfter lets the process live for so many uses.
func (d *killableStore) killAfter(uses int, after bool) {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	d.usesLeft, d.after = uses, after
}

// countResults counts entries of an ending whose reason holds some words.
func (d *killableStore) countResults(ending control.AuditResult, words string) (n int) {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	for _, e := range d.entries {
		if e.Result == ending && strings.Contains(e.Reason, words) {
			n++
		}
	}
	return n
}

func (d *killableStore) announcements(kind engine.EventKind) (all []engine.Event) {
	d.storeMu.Lock()
	defer d.storeMu.Unlock()
	for _, e := range d.annotations {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// fakeEngine has at most one incident, of a rule with the action rollback.
type fakeEngine struct {
	mu     sync.Mutex
	disk   *killableStore
	id     string // of the incident; empty: all is well
	value  engine.Value
	level  engine.Level
	opened time.Time
	rule   string
	pool   string
}

func (s *fakeEngine) Incidents() []engine.Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		return nil
	}
	return []engine.Incident{{ID: s.id, Key: engine.Key{Rule: s.rule, Pool: s.pool}, Level: s.level, Opened: s.opened, Action: "rollback"}}
}

func (s *fakeEngine) States() []engine.RuleStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []engine.RuleStatus{{
		Rule:  engine.Rule{Name: s.rule, Pool: s.pool, Action: "rollback", Page: engine.Threshold{At: 1, Set: true}},
		State: engine.State{Key: engine.Key{Rule: s.rule, Pool: s.pool}, Phase: engine.Firing, Incident: s.id}, Value: s.value,
	}}
}

func (s *fakeEngine) Annotate(_ context.Context, annotation engine.Annotation) ([]engine.Incident, error) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	if id == "" {
		return nil, nil
	}
	return nil, s.disk.write("remark", func() {
		s.disk.annotations = append(s.disk.annotations, engine.Event{Incident: id, Kind: annotation.Kind, By: annotation.By, Text: annotation.Text, At: time.Now()})
	})
}

// openPage opens an incident at level page with that value.
func (s *fakeEngine) openPage(id string, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.level, s.value, s.opened = id, engine.LevelPage, engine.Value{V: value}, time.Now()
}

// set changes the engine's fields.
func (s *fakeEngine) set(f func(*fakeEngine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *fakeEngine) closeIncident() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.value = "", engine.Value{}
}

// rollbackFixture is a process: a Controller and an AutoRollback over one store and one gate.
type rollbackFixture struct {
	*control.Controller
	rollback *control.AutoRollback
	gate     *admission.Gate
	store    *killableStore
	engine   *fakeEngine
	stop     func()
	hook     atomic.Pointer[func(control.ModeChange)]
}

// setHook has a function called with every change, once it is applied.
func (h *rollbackFixture) setHook(f func(control.ModeChange)) { h.hook.Store(&f) }

// testSettings has short times: a simulated hour takes a second under the race detector.
var testSettings = control.AutoRollbackSettings{
	Auto: true, MaxPerDay: 3, Cooldown: 3 * time.Minute, ManualHold: 24 * time.Minute,
}

// startRollbackFixture starts a process, inside a synctest bubble.
func startRollbackFixture(t *testing.T, d *killableStore, s *fakeEngine, c control.AutoRollbackSettings, mode admission.Mode) *rollbackFixture {
	t.Helper()
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s.disk, s.rule, s.pool = d, "false_refusal", "a"
	log := slog.New(slog.DiscardHandler)
	h := &rollbackFixture{gate: newGate(t), store: d, engine: s}
	h.gate.SetMode(time.Now(), mode)
	h.rollback, err = control.NewAutoRollback(control.AutoRollbackConfig{
		Settings: c, Journal: d, Audit: d, Log: log, Metrics: metrics, Remind: d.saveReminder, OnUnrecorded: d.recordWarning,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Controller = control.NewController(control.Config{
		Journal: d, Writer: "w1", Log: log, Metrics: metrics, OnApplied: h.applied, OnRecorded: h.rollback.OnRecorded,
	})
	if err := h.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Add(time.Now(), "a", h.gate)
	if err := h.rollback.Load(t.Context(), h.Controller); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	running.Go(func() { h.rollback.Run(ctx, s) })
	h.stop = func() { cancel(); running.Wait() }
	synctest.Wait()
	return h
}

func (h *rollbackFixture) applied(c control.ModeChange) {
	h.rollback.OnApplied(c)
	if f := h.hook.Load(); f != nil {
		(*f)(c)
	}
}

func (h *rollbackFixture) mode() admission.Mode { return h.gate.Snapshot(time.Now()).Mode }

// advance lets time pass and everything settle.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// requestMode changes the mode as a person does.
func (h *rollbackFixture) requestMode(t *testing.T, a control.ModeAction) {
	t.Helper()
	if _, err := h.Do(t.Context(), time.Now(), control.ModeRequest{Action: a, Pool: "a", Actor: "ana", Via: control.ViaAPI, Reason: "I know better"}); err != nil {
		t.Fatal(err)
	}
}

// wantPhase checks the state of the automatic rollback.
func (h *rollbackFixture) wantPhase(t *testing.T, state control.RollbackPhase, flips int) {
	t.Helper()
	if g, n := h.rollback.State("a"); g.Phase != state || n != flips {
		t.Errorf("automatic rollback is %s with %d rollbacks, want %s with %d", g.Phase, n, state, flips)
	}
}
