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

// disk is what outlives a process: modes, guards, entries, what was told. A
// process can be killed at any of its uses.
type disk struct {
	book
	use      sync.Mutex
	guards   map[string]control.Guard
	entries  map[string]control.Entry
	remarks  []engine.Event // with Incident, Kind, By, Words, At
	reminded map[string]control.Reminder
	warned   []control.Change // that people heard of past the record

	life  int  // uses until the kill; -1: never
	after bool // the use at which it dies still has its effect
	dead  bool
	full  bool // nothing can be written, and nobody is dead
	log   []string
}

func newDisk() *disk {
	return &disk{
		book: *newBook(), guards: map[string]control.Guard{}, entries: map[string]control.Entry{},
		reminded: map[string]control.Reminder{}, life: -1,
	}
}

// write has an effect, unless the process is dead by then.
func (d *disk) write(what string, effect func()) error {
	d.use.Lock()
	defer d.use.Unlock()
	if d.dead {
		return errDead
	}
	if d.full {
		return errDiskFull
	}
	if d.life == 0 {
		d.dead = true
		d.log = append(d.log, "killed at "+what)
		if d.after {
			effect()
		}
		return errDead
	}
	d.life = max(d.life-1, -1)
	d.log = append(d.log, what)
	effect()
	return nil
}

func (d *disk) Record(ctx context.Context, changes []control.Change, seen int64) error {
	var err error
	return errors.Join(d.write("change", func() { err = d.book.Record(ctx, changes, seen) }), err)
}

func (d *disk) SaveGuard(_ context.Context, g control.Guard) error {
	g.Flips = slices.Clone(g.Flips)
	return d.write("guard "+string(g.State), func() { d.guards[g.Pool] = g })
}

func (d *disk) Guards(context.Context) ([]control.Guard, error) {
	d.use.Lock()
	defer d.use.Unlock()
	var all []control.Guard
	for _, g := range d.guards {
		all = append(all, g)
	}
	return all, nil
}

func (d *disk) Told(_ context.Context, incident, kind, actor string, since time.Time) (bool, error) {
	d.use.Lock()
	defer d.use.Unlock()
	return slices.ContainsFunc(d.remarks, func(e engine.Event) bool {
		return e.Incident == incident && string(e.Kind) == kind && e.By == actor && !e.At.Before(since)
	}), nil
}

func (d *disk) Note(e control.Entry) {
	_ = d.write("entry "+string(e.Ending), func() {
		if _, there := d.entries[e.ID]; !there {
			d.entries[e.ID] = e
		}
	})
}

func (d *disk) remind(_ context.Context, r control.Reminder) error {
	return d.write("reminder", func() { d.reminded[r.Change+" "+time.Duration(r.Hour).String()] = r })
}

func (d *disk) warn(c control.Change) {
	d.use.Lock()
	defer d.use.Unlock()
	d.warned = append(d.warned, c)
}

func (d *disk) warnings() []control.Change {
	d.use.Lock()
	defer d.use.Unlock()
	return slices.Clone(d.warned)
}

func (d *disk) reminders() map[string]control.Reminder {
	d.use.Lock()
	defer d.use.Unlock()
	return maps.Clone(d.reminded)
}

func (d *disk) notes() map[string]control.Entry {
	d.use.Lock()
	defer d.use.Unlock()
	return maps.Clone(d.entries)
}

func (d *disk) guard(pool string) control.Guard {
	d.use.Lock()
	defer d.use.Unlock()
	return d.guards[pool]
}

func (d *disk) fill(full bool) {
	d.use.Lock()
	defer d.use.Unlock()
	d.full = full
}

// dies lets the process live for so many uses.
func (d *disk) dies(uses int, after bool) {
	d.use.Lock()
	defer d.use.Unlock()
	d.life, d.after = uses, after
}

// endings counts entries of an ending whose reason holds some words.
func (d *disk) endings(ending control.Ending, words string) (n int) {
	d.use.Lock()
	defer d.use.Unlock()
	for _, e := range d.entries {
		if e.Ending == ending && strings.Contains(e.Reason, words) {
			n++
		}
	}
	return n
}

func (d *disk) told(kind engine.EventKind) (all []engine.Event) {
	d.use.Lock()
	defer d.use.Unlock()
	for _, e := range d.remarks {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// scene is what the engine sees: one incident of a rule that asks for a rollback.
type scene struct {
	mu     sync.Mutex
	disk   *disk
	id     string // of the incident; empty: all is well
	value  engine.Value
	level  engine.Level
	opened time.Time
	rule   string
	pool   string
}

func (s *scene) Incidents() []engine.Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		return nil
	}
	return []engine.Incident{{ID: s.id, Key: engine.Key{Rule: s.rule, Pool: s.pool}, Level: s.level, Opened: s.opened, Action: "rollback"}}
}

func (s *scene) States() []engine.RuleStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []engine.RuleStatus{{
		Rule:  engine.Rule{Name: s.rule, Pool: s.pool, Action: "rollback", Page: engine.Threshold{At: 1, Set: true}},
		State: engine.State{Key: engine.Key{Rule: s.rule, Pool: s.pool}, Phase: engine.Firing, Incident: s.id}, Value: s.value,
	}}
}

func (s *scene) Remark(_ context.Context, r engine.Remark) ([]engine.Incident, error) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	if id == "" {
		return nil, nil
	}
	return nil, s.disk.write("remark", func() {
		s.disk.remarks = append(s.disk.remarks, engine.Event{Incident: id, Kind: r.Kind, By: r.By, Words: r.Words, At: time.Now()})
	})
}

// pages sets the scene: an incident at level page with that value.
func (s *scene) pages(id string, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.level, s.value, s.opened = id, engine.LevelPage, engine.Value{V: value}, time.Now()
}

// set changes the scene.
func (s *scene) set(f func(*scene)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *scene) calms() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.value = "", engine.Value{}
}

// house is a process: a Controller and a Keeper over one disk and one gate.
type house struct {
	*control.Controller
	keeper *control.Keeper
	gate   *admission.Gate
	disk   *disk
	scene  *scene
	stop   func()
	hook   atomic.Pointer[func(control.Change)]
}

// hooked has a function called with every change, once it is applied.
func (h *house) hooked(f func(control.Change)) { h.hook.Store(&f) }

var usual = control.GuardConfig{Auto: true, MaxPerDay: 3, Cooldown: 30 * time.Minute, HumanLatch: 4 * time.Hour}

// open starts a process, inside a synctest bubble.
func open(t *testing.T, d *disk, s *scene, c control.GuardConfig, mode admission.Mode) *house {
	t.Helper()
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s.disk, s.rule, s.pool = d, "false_refusal", "a"
	log := slog.New(slog.DiscardHandler)
	h := &house{gate: newGate(t), disk: d, scene: s}
	h.gate.SetMode(time.Now(), mode)
	h.keeper, err = control.NewKeeper(control.KeeperConfig{
		Rules: c, Journal: d, Audit: d, Log: log, Metrics: metrics, Remind: d.remind, Unrecorded: d.warn,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Controller = control.New(control.Config{
		Journal: d, Writer: "w1", Log: log, Metrics: metrics, Applied: h.applied, Recorded: h.keeper.Recorded,
	})
	if err := h.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Add(time.Now(), "a", h.gate)
	if err := h.keeper.Load(t.Context(), h.Controller); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	running.Go(func() { h.keeper.Run(ctx, s) })
	h.stop = func() { cancel(); running.Wait() }
	synctest.Wait()
	return h
}

func (h *house) applied(c control.Change) {
	h.keeper.Applied(c)
	if f := h.hook.Load(); f != nil {
		(*f)(c)
	}
}

func (h *house) mode() admission.Mode { return h.gate.Snapshot(time.Now()).Mode }

// wait lets time pass and everything settle.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// orders gives an order as a person does.
func (h *house) orders(t *testing.T, a control.Action) {
	t.Helper()
	if _, err := h.Do(t.Context(), time.Now(), control.Order{Action: a, Pool: "a", Actor: "ana", Via: control.ViaAPI, Reason: "I know better"}); err != nil {
		t.Fatal(err)
	}
}

// wantGuard checks how the guard stands.
func (h *house) wantGuard(t *testing.T, state control.GuardState, flips int) {
	t.Helper()
	if g, n := h.keeper.Guard("a"); g.State != state || n != flips {
		t.Errorf("the guard is %s with %d flips, want %s with %d", g.State, n, state, flips)
	}
}
