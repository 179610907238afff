package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// fakeSignals answers for signals with what a test has put on it.
type fakeSignals struct {
	mu      sync.Mutex
	values  map[Key]Value
	queries []string              // names, one line for each evaluation
	answer  func(context.Context) // before it answers
}

func (b *fakeSignals) set(key Key, v Value) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[key] = v
}

func (b *fakeSignals) onQuery(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = f
}

func (b *fakeSignals) evaluations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.queries)
}

func (b *fakeSignals) Values(ctx context.Context, _ time.Time, rules []Rule) map[Key]Value {
	b.mu.Lock()
	line := ""
	for _, r := range rules {
		line += r.Name + " "
	}
	b.queries = append(b.queries, line)
	answer := b.answer
	b.mu.Unlock()
	if answer != nil {
		answer(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.values)
}

var errDisk = errors.New("the disk is full")

// fakeJournal is a journal that can fail, hang, or save and say that it did not.
type fakeJournal struct {
	t     *testing.T
	mu    sync.Mutex
	store *journalStore
	seen  map[string]bool // event IDs
	save  func(ctx context.Context) (write bool, err error)
	load  error
}

func (s *fakeJournal) Save(ctx context.Context, b Batch) error {
	s.mu.Lock()
	f := s.save
	s.mu.Unlock()
	write, err := true, error(nil)
	if f != nil {
		write, err = f(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !write {
		return err
	}
	fresh := b
	fresh.Events = nil
	for _, e := range b.Events {
		if !s.seen[e.ID] {
			fresh.Events = append(fresh.Events, e)
		}
		s.seen[e.ID] = true
	}
	s.store.save(s.t, fresh)
	return err
}

func (s *fakeJournal) Load(context.Context) (SavedState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.load(), s.load
}

func (s *fakeJournal) fail(f func(context.Context) (bool, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.save = f
}

func (s *fakeJournal) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return eventLines(s.store.events)
}

func eventLines(events []Event) []string {
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%d %s %s", e.Seq, e.Kind, e.Level))
	}
	return lines
}

// batchLog collects batches.
type batchLog struct {
	mu      sync.Mutex
	batches []Batch
}

func (h *batchLog) add(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches = append(h.batches, b)
}

func (h *batchLog) events() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Event
	for _, b := range h.batches {
		all = append(all, b.Events...)
	}
	return eventLines(all)
}

// fixture is an engine with everything around it under a test's control.
type fixture struct {
	*Engine
	t                             *testing.T
	signals                       *fakeSignals
	journal                       *fakeJournal
	stepped, recorded, unrecorded batchLog
	log                           *lockedBuffer
	reg                           *prometheus.Registry
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newFixture(t *testing.T, edit func(*Options)) *fixture {
	t.Helper()
	r := &fixture{
		t: t, signals: &fakeSignals{values: map[Key]Value{ruleKey: low}},
		journal: &fakeJournal{t: t, store: newJournalStore(), seen: map[string]bool{}}, log: &lockedBuffer{},
	}
	r.Engine = r.build(edit)
	return r
}

func (r *fixture) build(edit func(*Options)) *Engine {
	r.t.Helper()
	r.reg = prometheus.NewRegistry()
	metrics, err := NewMetrics(r.reg)
	if err != nil {
		r.t.Fatal(err)
	}
	o := Options{
		Config: DefaultConfig(), Rules: []Rule{ageRule()}, Signals: r.signals, Journal: r.journal,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Metrics: metrics,
		OnStep: r.stepped.add, OnSaved: r.recorded.add, OnUnsaved: r.unrecorded.add,
	}
	if edit != nil {
		edit(&o)
	}
	e, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r *fixture) start() *fixture {
	r.t.Helper()
	if err := r.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return r
}

func (r *fixture) stop() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// advance lets time go by, to just after the last tick in it.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// metric returns a metric's value by name and label values.
func (r *fixture) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(has, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	r.t.Fatalf("there is no metric %s%q", name, labels)
	return 0
}
