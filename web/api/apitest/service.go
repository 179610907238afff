package apitest

import (
	"context"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// StartEngine starts an engine that reads b and records in s. It stops with the test.
func StartEngine(t testing.TB, every time.Duration, b *Signals, s *IncidentStore, log *slog.Logger) *engine.Engine {
	t.Helper()
	metrics, err := engine.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := engine.DefaultConfig()
	c.Interval = every
	e, err := engine.New(engine.Options{Config: c, Rules: Rules(), Signals: b, Journal: s, Log: log, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.WithoutCancel(t.Context())) }) // the store may be made to fail
	return e
}

// Server is an admin API on a loopback listener, with a rules engine, drills and pools.
type Server struct {
	URL       string
	Control   *Control
	Signals   *Signals
	Incidents *IncidentStore
	Drills    *Drills
	Engine    *engine.Engine
}

// NewServer starts a Server with these pools, which stops with the test.
func NewServer(t testing.TB, token string, pools ...string) *Server {
	t.Helper()
	s := &Server{Signals: NewSignals(), Incidents: NewIncidentStore(), Drills: NewDrills()}
	log := slog.New(slog.DiscardHandler)
	s.Engine = StartEngine(t, 5*time.Millisecond, s.Signals, s.Incidents, log)
	service := NewControl(t, log, pools...)
	service.SetEngine(s.Engine)
	s.Control = service
	admin, err := api.NewAdmin(api.AdminConfig{
		Token: token, Control: service.Service, Status: service, Audit: service.Record, Incidents: s.Incidents, Drills: s.Drills.Ports(), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ops := api.Ops{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }}
	server := httptest.NewServer(api.Handler(ops, admin))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// SetValue sets the value of a rule and waits until its effect is recorded:
// an open incident, whose ID it returns, or none.
func (s *Server) SetValue(t testing.TB, rule, pool string, v float64) string {
	t.Helper()
	s.Signals.Set(rule, pool, v)
	key := engine.Key{Rule: rule, Pool: pool}
	for {
		id := s.openIncidentID(key)
		if (id != "") == (v >= 15) && s.upToDate(key, v) {
			return id
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s in %q did not reach %v", rule, pool, v)
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *Server) openIncidentID(key engine.Key) string {
	for _, i := range s.Engine.Incidents() {
		if i.Key == key && i.Open() {
			return i.ID
		}
	}
	return ""
}

// upToDate says whether the record is up to date with the value of a key.
func (s *Server) upToDate(key engine.Key, v float64) bool {
	for _, i := range s.Engine.Incidents() {
		if i.Key == key && (s.Incidents.Stored(i.ID) != i || i.Open() && i.Value != v) {
			return false
		}
	}
	return true
}

// Control is a control.Service over real gates, with its record in memory.
type Control struct {
	*control.Service
	Modes  *control.Controller
	Gates  map[string]*admission.Gate
	Record *Record
	names  []string
}

// NewControl starts a Control, which stops with the test. Its pools have two workers, are in enforce, and are recorded.
func NewControl(t testing.TB, log *slog.Logger, pools ...string) *Control {
	t.Helper()
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := &Control{Gates: map[string]*admission.Gate{}, Record: &Record{}, names: pools}
	c.Modes = control.NewController(control.Config{Journal: c.Record, Writer: "w", Log: log, Metrics: metrics})
	for _, name := range pools {
		c.Gates[name], err = admission.New(admission.Config{
			Workers: 2, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}, QueueLimit: 100, AssumedService: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Modes.Add(time.Now(), name, c.Gates[name])
	}
	pauses := control.NewPauses(c.Record, c.Modes, log, metrics)
	c.Service = control.NewService(c.Modes, pauses, c.Record, log)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Modes.Run(ctx) })
	running.Go(func() { pauses.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	for slices.ContainsFunc(pools, func(name string) bool { return !c.Modes.Recorded(name) }) { // their first start
		time.Sleep(time.Millisecond)
	}
	return c
}

// Status shows the pools.
func (c *Control) Status(now time.Time) api.Status {
	s := api.Status{Version: "test"}
	for _, name := range c.names {
		p, _ := c.PoolStatus(now, name)
		p.SLOS = 60
		s.Pools = append(s.Pools, p)
	}
	return s
}

// Mode returns the mode of a pool's gate.
func (c *Control) Mode(pool string) admission.Mode { return c.Gates[pool].Snapshot(time.Now()).Mode }

// Fill offers n tasks to a pool that all have to finish within the given time.
func (c *Control) Fill(pool string, n int, within time.Duration) {
	now := time.Now()
	for range n {
		c.Gates[pool].Offer(now, admission.Task{Deadline: now.Add(within), Waiter: nopWaiter{}})
	}
}

type nopWaiter struct{}

func (nopWaiter) Done(admission.Refusal) {}

// memory is the lock of a record in memory, and the error with which it fails.
type memory struct {
	mu  sync.Mutex
	err error
}

// lock locks the record, and returns what unlocks it: defer m.lock()().
func (m *memory) lock() func() {
	m.mu.Lock()
	return m.mu.Unlock
}

// SetError makes reads and writes fail with an error, until it is called with nil.
func (m *memory) SetError(err error) {
	defer m.lock()()
	m.err = err
}

// pageAfter returns a page of those that match, and the key of the next one.
func pageAfter[T any](all []T, key func(T) string, after string, limit int, match func(T) bool) (items []T, next string, err error) {
	if after != "" {
		n := slices.IndexFunc(all, func(v T) bool { return key(v) == after })
		if n < 0 {
			return nil, "", control.ErrUnknownCursor
		}
		all = all[n+1:]
	}
	all = slices.DeleteFunc(all, func(v T) bool { return !match(v) })
	if len(all) > limit {
		all, next = all[:limit], key(all[limit-1])
	}
	return all, next, nil
}

// Record is a journal and an audit in memory. It can fail, and it can be slow. It is safe for concurrent use.
type Record struct {
	memory
	changes []control.ModeChange
	entries []control.AuditEntry
	delay   time.Duration
}

// SetDelay makes every write of changes take a while.
func (r *Record) SetDelay(d time.Duration) {
	defer r.lock()()
	r.delay = d
}

// ModeChanges returns the recorded changes but for first starts, oldest first.
func (r *Record) ModeChanges() []control.ModeChange {
	defer r.lock()()
	return slices.DeleteFunc(slices.Clone(r.changes), func(c control.ModeChange) bool { return c.Action == control.InitialMode })
}

// Entries returns the entries, oldest first.
func (r *Record) Entries() []control.AuditEntry {
	defer r.lock()()
	return slices.Clone(r.entries)
}

// RecordChanges is for the Controller, and for tests that need a history.
func (r *Record) RecordChanges(ctx context.Context, changes []control.ModeChange, _ int64) error {
	r.mu.Lock()
	delay, err := r.delay, r.err
	r.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer r.lock()()
	if err == nil {
		r.changes = append(r.changes, changes...)
	}
	return err
}

// ModeStates remembers nothing.
func (r *Record) ModeStates(context.Context) ([]control.ModeState, error) { return nil, nil }

// QueuedRequests has none.
func (r *Record) QueuedRequests(context.Context, int64) ([]control.QueuedRequest, error) {
	return nil, nil
}

// SavePause keeps nothing.
func (r *Record) SavePause(context.Context, control.Pause) error {
	defer r.lock()()
	return r.err
}

// Pauses has none.
func (r *Record) Pauses(context.Context) ([]control.Pause, error) { return nil, nil }

// Append adds an entry.
func (r *Record) Append(e control.AuditEntry) {
	defer r.lock()()
	r.entries = append(r.entries, e)
}

// Audit pages through the changes by the ID of the last one shown. Entries are on the first page.
func (r *Record) Audit(_ context.Context, q control.AuditQuery) (control.AuditPage, error) {
	defer r.lock()()
	if r.err != nil {
		return control.AuditPage{}, r.err
	}
	entries := slices.DeleteFunc(slices.Clone(r.entries), func(e control.AuditEntry) bool { return q.Kind != "" && q.Kind != e.Kind })
	changes := slices.Clone(r.changes)
	slices.Reverse(changes)
	changes, next, err := pageAfter(changes, func(c control.ModeChange) string { return c.ID }, q.After, q.Limit, func(c control.ModeChange) bool {
		return (q.Kind == "" || q.Kind == control.KindMode) && !c.At.Before(q.Since) && (q.Pool == "" || q.Pool == c.Pool)
	})
	if err != nil {
		return control.AuditPage{}, err
	}
	return control.NewAuditPage(changes, entries, next), nil
}

// Signals answers for signals with what a test has set. It is safe for
// concurrent use.
type Signals struct {
	memory
	values map[engine.Key]engine.Value
}

// NewSignals returns a Signals on which every rule of Rules stands at 0.
func NewSignals() *Signals {
	b := &Signals{values: map[engine.Key]engine.Value{}}
	for _, r := range Rules() {
		b.values[r.Key()] = engine.Value{}
	}
	return b
}

// Values implements engine.Signals.
func (b *Signals) Values(context.Context, time.Time, []engine.Rule) map[engine.Key]engine.Value {
	defer b.lock()()
	return maps.Clone(b.values)
}

// Set sets the value of a rule in a pool.
func (b *Signals) Set(rule, pool string, v float64) {
	defer b.lock()()
	b.values[engine.Key{Rule: rule, Pool: pool}] = engine.Value{V: v}
}

// Rules are queue_age of the pools a and b, and journal of the whole process.
func Rules() []engine.Rule {
	rule := func(name, pool, unit string) engine.Rule {
		return engine.Rule{
			Name: name, Pool: pool, Signal: "x", Unit: unit, Clear: engine.Clear{Below: 10},
			Warn: engine.Threshold{At: 15, Set: true}, Page: engine.Threshold{At: 25, Set: true},
			Summary: "The queue is old.", Impact: "Answers come late.", Runbook: "queue_age",
		}
	}
	return []engine.Rule{rule("queue_age", "a", "s"), rule("queue_age", "b", "s"), rule("journal", "", "")}
}

// IncidentStore is a record of incidents in memory: engine.Journal and api.IncidentReader. It
// is safe for concurrent use.
type IncidentStore struct {
	memory
	incidents  map[string]engine.Incident
	events     map[string][]engine.Event
	deliveries map[string][]api.Delivery
}

// NewIncidentStore returns an empty IncidentStore.
func NewIncidentStore() *IncidentStore {
	return &IncidentStore{
		incidents: map[string]engine.Incident{}, events: map[string][]engine.Event{}, deliveries: map[string][]api.Delivery{},
	}
}

// Add puts an incident there, with events if there are any.
func (s *IncidentStore) Add(i engine.Incident, events ...engine.Event) {
	defer s.lock()()
	s.incidents[i.ID] = i
	s.events[i.ID] = append(s.events[i.ID], events...)
}

// SetDeliveries sets what was sent about an incident.
func (s *IncidentStore) SetDeliveries(id string, ds ...api.Delivery) {
	defer s.lock()()
	s.deliveries[id] = ds
}

// Stored returns an incident as it is recorded.
func (s *IncidentStore) Stored(id string) engine.Incident {
	defer s.lock()()
	return s.incidents[id]
}

// Save implements engine.Journal.
func (s *IncidentStore) Save(_ context.Context, b engine.Batch) error {
	defer s.lock()()
	if s.err != nil {
		return s.err
	}
	for _, i := range b.Incidents {
		s.incidents[i.ID] = i
	}
	for _, e := range b.Events {
		if !slices.ContainsFunc(s.events[e.Incident], func(o engine.Event) bool { return o.Seq == e.Seq }) {
			s.events[e.Incident] = append(s.events[e.Incident], e)
		}
	}
	return nil
}

// Load implements engine.Journal; nothing is remembered.
func (s *IncidentStore) Load(context.Context) (engine.SavedState, error) {
	return engine.SavedState{}, nil
}

// List returns a page; its keys are no IDs.
func (s *IncidentStore) List(_ context.Context, q api.IncidentQuery) (items []engine.Incident, next string, err error) {
	defer s.lock()()
	if s.err != nil {
		return nil, "", s.err
	}
	all := slices.SortedFunc(maps.Values(s.incidents), func(a, b engine.Incident) int { return strings.Compare(b.ID, a.ID) })
	return pageAfter(all, cursorOf, q.After, q.Limit, func(i engine.Incident) bool {
		return !i.Opened.Before(q.Since) && (q.Pool == "" || q.Pool == i.Pool) && (q.Rule == "" || q.Rule == i.Rule)
	})
}

func cursorOf(i engine.Incident) string { return "at." + i.ID }

// Incident returns one with its events and deliveries.
func (s *IncidentStore) Incident(_ context.Context, id string) (api.IncidentReport, error) {
	defer s.lock()()
	i, ok := s.incidents[id]
	switch {
	case s.err != nil:
		return api.IncidentReport{}, s.err
	case !ok:
		return api.IncidentReport{}, engine.ErrNoIncident
	}
	return api.IncidentReport{
		Incident: api.Incident{Incident: i}, Events: api.EventsOf(s.events[id]), Deliveries: slices.Clone(s.deliveries[id]),
	}, nil
}
