package ui_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/api/apitest"
	"headgate/web/ui"
)

const token = "a-token-of-a-test-0123456789"

var errBroken = errors.New("the disk at /some/where is full")

// rig is a whole admin plane on a listener, over a fake record.
type rig struct {
	*testing.T
	url    string
	admin  *api.Admin
	record *record
	notes  *notebook
	board  *apitest.Board
	shelf  *apitest.Shelf
	engine *engine.Engine
	series *series
	acts   *acts
}

type rigOptions struct {
	drills    *api.Drills
	anonymous bool
	unwatched bool
	pools     []api.PoolStatus
}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	if o.pools == nil {
		o.pools = []api.PoolStatus{quietPool("default")}
	}
	r := &rig{T: t, record: &record{pools: o.pools}, notes: &notebook{}, board: apitest.NewBoard(), shelf: apitest.NewShelf(), series: &series{}, acts: &acts{}}
	log := slog.New(slog.DiscardHandler)
	c := api.AdminConfig{
		Drills: o.drills, Actions: r.acts,
		Token: token, Orders: r.record, Statuses: r.record, Audit: r.record, Log: log, AnonymousRead: o.anonymous, Notes: r.notes,
	}
	p := ui.Config{Facts: r.record, Log: log}
	if !o.unwatched {
		r.engine = apitest.Engine(t, 5*time.Millisecond, r.board, r.shelf, log)
		c.Incidents, c.Watch, p.Series = r.shelf, r.engine, r.series
	}
	var err error
	if r.admin, err = api.NewAdmin(c); err != nil {
		t.Fatal(err)
	}
	p.Admin = r.admin
	people, err := ui.New(p)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(api.Handler(api.Ops{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }, Pages: people}, r.admin))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// quietPool is a pool in enforce that serves a little.
func quietPool(name string) api.PoolStatus {
	recorded, p95, use := true, 41.2, 0.6
	return api.PoolStatus{
		Name: name, Mode: "enforce", ModeSince: time.Now().Add(-time.Hour), ModeBy: "settings", ModeReason: "first start", ModeRecorded: &recorded,
		Policy: "threshold", Workers: 4, InFlight: 3, QueueDepth: 2, QueueOldestAgeS: 4.2, P95TurnaroundS: &p95, SLOS: 60, EnvelopeUse: &use,
		Admitted1m: 12,
	}
}

// record is how pools stand, and what was done.
type record struct {
	mu     sync.Mutex
	pools  []api.PoolStatus
	orders []control.Order
	page   api.ChangePage
	asked  api.ChangeQuery
	broken error
}

func (r *record) Status(time.Time) api.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return api.Status{Version: "v1", Pools: slices.Clone(r.pools)}
}

func (r *record) Do(_ context.Context, now time.Time, o control.Order) (control.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := control.Result{Recorded: true}
	for i := range r.pools {
		p := &r.pools[i]
		if o.Pool != "" && o.Pool != p.Name {
			continue
		}
		if o.Expected != nil && o.Expected.String() != p.Mode {
			return control.Result{}, control.ErrUnexpected
		}
		from, err := admission.ParseMode(p.Mode)
		if err != nil {
			return control.Result{}, err
		}
		to := o.Mode
		if o.Action == control.Restore {
			to = admission.Enforce
		}
		p.Mode, p.ModeBy, p.ModeReason, p.ModeSince = to.String(), o.Actor, o.Reason, now
		result.Changes = append(result.Changes, control.Change{ID: "x", Pool: p.Name, Action: o.Action, From: from, To: to, At: now, Actor: o.Actor})
	}
	if len(result.Changes) == 0 {
		return control.Result{}, control.ErrNoPool
	}
	r.orders = append(r.orders, o)
	return result, nil
}

func (r *record) Changes(_ context.Context, q api.ChangeQuery) (api.ChangePage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = q
	return r.page, r.broken
}

func (r *record) Facts(context.Context, time.Time, string) (ui.PoolFacts, bool) {
	return ui.PoolFacts{
		MaxAge: 25 * time.Second, MaxDepth: 8, Objective: 0.95, Window: 30 * 24 * time.Hour, Good: 990, Bad: 10, Counted: true,
	}, true
}

func (r *record) given() []control.Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.orders)
}

// set changes a pool behind everybody's back.
func (r *record) set(change func(*api.PoolStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.pools[0])
}

// acts takes pauses, and remembers them.
type acts struct {
	mu    sync.Mutex
	given []control.Call
}

func (a *acts) Acts() []control.Act { return []control.Act{{Name: "pause"}, {Name: "resume"}} }

func (a *acts) Do(_ context.Context, _ time.Time, c control.Call) (control.Outcome, error) {
	if c.Name == "resume" && c.Pool == "b" {
		return control.Outcome{}, control.ErrNotPaused
	}
	if !c.DryRun {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.given = append(a.given, c)
	}
	return control.Outcome{Words: "pool " + c.Pool + " would hand out no worker"}, nil
}

// notebook is an audit in memory.
type notebook struct {
	mu      sync.Mutex
	entries []control.Entry
}

func (n *notebook) Note(e control.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entries = append(n.entries, e)
}

func (n *notebook) last() control.Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.entries) == 0 {
		return control.Entry{}
	}
	return n.entries[len(n.entries)-1]
}

// series is samples: the same for every expression.
type series struct {
	mu     sync.Mutex
	lines  func(expr string, from, to time.Time, step time.Duration) []tsdb.Line
	broken error
	asked  []string
}

func (s *series) Between(_ context.Context, expr string, from, to time.Time, step time.Duration) ([]tsdb.Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, expr)
	if s.broken != nil || s.lines == nil {
		return nil, s.broken
	}
	return s.lines(expr, from, to, step), nil
}

// trouble opens an incident, and returns its ID.
func (r *rig) trouble(rule, pool string) string {
	r.Helper()
	r.board.Put(rule, pool, 15)
	for {
		for _, i := range r.engine.Incidents() {
			if i.Key.Rule == rule && i.Key.Pool == pool && i.Open() {
				return i.ID
			}
		}
		select {
		case <-r.Context().Done():
			r.Fatal("no incident has opened")
		case <-time.After(time.Millisecond):
		}
	}
}
