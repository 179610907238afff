package web_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/web"
)

// board answers for signals with what a test has put on it.
type board struct {
	mu     sync.Mutex
	values map[engine.Key]engine.Value
}

func (b *board) Values(context.Context, time.Time, []engine.Rule) map[engine.Key]engine.Value {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.values)
}

func (b *board) put(rule, pool string, v float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[engine.Key{Rule: rule, Pool: pool}] = engine.Value{V: v}
}

// shelf is a record of incidents in memory. It can break.
type shelf struct {
	mu         sync.Mutex
	incidents  map[string]engine.Incident
	events     map[string][]engine.Event
	deliveries map[string][]web.DeliveryRecord
	broken     error
	asked      web.IncidentQuery
}

func (s *shelf) Save(_ context.Context, b engine.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
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

func (s *shelf) Load(context.Context) (engine.Saved, error) { return engine.Saved{}, nil }

func (s *shelf) List(_ context.Context, q web.IncidentQuery) (web.IncidentPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = q
	if s.broken != nil {
		return web.IncidentPage{}, s.broken
	}
	all := slices.SortedFunc(maps.Values(s.incidents), func(a, b engine.Incident) int { return strings.Compare(b.ID, a.ID) })
	if q.After != "" {
		n := slices.IndexFunc(all, func(i engine.Incident) bool { return keyOf(i) == q.After })
		if n < 0 {
			return web.IncidentPage{}, web.ErrUnknownKey
		}
		all = all[n+1:]
	}
	all = slices.DeleteFunc(all, func(i engine.Incident) bool {
		return i.Opened.Before(q.Since) || q.Pool != "" && q.Pool != i.Key.Pool || q.Rule != "" && q.Rule != i.Key.Rule
	})
	if len(all) <= q.Limit {
		return web.IncidentPage{Items: all}, nil
	}
	return web.IncidentPage{Items: all[:q.Limit], Next: keyOf(all[q.Limit-1])}, nil
}

// keyOf is the record's own business, and no ID.
func keyOf(i engine.Incident) string { return "at." + i.ID }

func (s *shelf) Incident(_ context.Context, id string) (web.IncidentDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return web.IncidentDetail{}, s.broken
	}
	i, ok := s.incidents[id]
	if !ok {
		return web.IncidentDetail{}, web.ErrNoIncident
	}
	return web.IncidentDetail{Incident: i, Events: slices.Clone(s.events[id]), Deliveries: s.deliveries[id]}, nil
}

func (s *shelf) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// watchRig is a rig whose headgate watches, with a real engine.
type watchRig struct {
	*rig
	engine *engine.Engine
	board  *board
	shelf  *shelf
}

// rules are one of each pool, and one of the whole process. They fire at once
// and clear at once.
func rules() []engine.Rule {
	rule := func(name, pool, unit string) engine.Rule {
		return engine.Rule{
			Name: name, Pool: pool, Signal: "x", Unit: unit, Clear: engine.Clear{Below: 10},
			Warn: engine.Threshold{At: 15, Set: true}, Page: engine.Threshold{At: 25, Set: true},
			Summary: "The queue is old.", Feel: "Answers come late.", Runbook: "queue_age",
		}
	}
	return []engine.Rule{rule("queue_age", "a", "s"), rule("queue_age", "b", "s"), rule("journal", "", "")}
}

// watching starts an engine that evaluates at the given interval.
func watching(t *testing.T, every time.Duration) *watchRig {
	t.Helper()
	r := &watchRig{
		rig:   newRig(t),
		board: &board{values: map[engine.Key]engine.Value{}},
		shelf: &shelf{
			incidents: map[string]engine.Incident{}, events: map[string][]engine.Event{}, deliveries: map[string][]web.DeliveryRecord{},
		},
	}
	for _, rule := range rules() {
		r.board.put(rule.Name, rule.Pool, 0)
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	metrics, err := engine.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := engine.DefaultConfig()
	c.Interval = every
	r.engine, err = engine.New(engine.Options{Config: c, Rules: rules(), Signals: r.board, Journal: r.shelf, Log: log, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := web.NewAdmin(web.AdminConfig{
		Token: token, Orders: r.controller, Statuses: r, Audit: r.record, Incidents: r.shelf, Watch: r.engine, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.handler = web.Handler(web.Ops{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }}, admin)
	if err := r.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.engine.Stop(context.WithoutCancel(t.Context())) }) // a record may be broken on purpose
	return r
}

// watched runs a test on a clock of its own.
func watched(t *testing.T, test func(t *testing.T, r *watchRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := watching(t, time.Second)
		synctest.Wait()
		test(t, r)
	})
}

// step puts a value on the board and lets it be evaluated and recorded.
func (r *watchRig) step(rule, pool string, v float64) {
	r.board.put(rule, pool, v)
	time.Sleep(time.Second)
	synctest.Wait()
}

func (r *watchRig) get(path string, v any) {
	r.Helper()
	r.reply(r.do(call{method: http.MethodGet, path: path}), v)
}

func (r *watchRig) post(path, body, actor string) *httptest.ResponseRecorder {
	r.Helper()
	return r.do(call{method: http.MethodPost, path: path, body: body, header: http.Header{web.ActorHeader: {actor}}})
}

// open makes trouble and returns its incident.
func (r *watchRig) open(rule, pool string, v float64) web.Incident {
	r.Helper()
	r.step(rule, pool, v)
	var list web.IncidentList
	r.get("/api/v1/incidents?open=true&rule="+rule+"&pool="+pool, &list)
	if len(list.Items) != 1 {
		r.Fatalf("open incidents of %s in %q: %+v", rule, pool, list.Items)
	}
	return list.Items[0]
}
