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

// fixture is a whole admin plane on a listener, over a fake record.
type fixture struct {
	*testing.T
	url       string
	admin     *api.Admin
	record    *fakeBackend
	auditLog  *auditRecorder
	signals   *apitest.Signals
	incidents *apitest.IncidentStore
	engine    *engine.Engine
	series    *fakeSamples
	acts      *fakeActions
}

type fixtureOptions struct {
	drills        *api.DrillPorts
	anonymous     bool
	withoutEngine bool
	pools         []api.PoolStatus
}

func newFixture(t *testing.T, o fixtureOptions) *fixture {
	t.Helper()
	if o.pools == nil {
		o.pools = []api.PoolStatus{healthyPool("default")}
	}
	r := &fixture{T: t, record: &fakeBackend{pools: o.pools}, auditLog: &auditRecorder{}, signals: apitest.NewSignals(), incidents: apitest.NewIncidentStore(), series: &fakeSamples{}, acts: &fakeActions{}}
	log := slog.New(slog.DiscardHandler)
	c := api.AdminConfig{
		Drills: o.drills, Actions: r.acts,
		Token: token, Modes: r.record, Status: r.record, Audit: r.record, Log: log, AnonymousRead: o.anonymous, AuditLog: r.auditLog,
	}
	p := ui.Config{Facts: r.record, Log: log}
	if !o.withoutEngine {
		r.engine = apitest.StartEngine(t, 5*time.Millisecond, r.signals, r.incidents, log)
		c.Incidents, c.Engine, p.Samples = r.incidents, r.engine, r.series
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

// healthyPool is a pool in enforce that serves a little.
func healthyPool(name string) api.PoolStatus {
	recorded, p95, use := true, 41.2, 0.6
	return api.PoolStatus{
		Name: name, Mode: "enforce", ModeSince: time.Now().Add(-time.Hour), ModeBy: "settings", ModeReason: "first start", ModeRecorded: &recorded,
		Policy: "threshold", Workers: 4, InFlight: 3, QueueDepth: 2, QueueOldestAgeS: 4.2, P95TurnaroundS: &p95, SLOS: 60, EnvelopeUse: &use,
		Admitted1m: 12,
	}
}

// fakeBackend is how pools stand, and what was done.
type fakeBackend struct {
	mu           sync.Mutex
	pools        []api.PoolStatus
	modeRequests []control.ModeRequest
	page         api.AuditRecords
	asked        api.AuditQuery
	err          error
}

func (r *fakeBackend) Status(time.Time) api.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return api.Status{Version: "v1", Pools: slices.Clone(r.pools)}
}

func (r *fakeBackend) Do(_ context.Context, now time.Time, o control.ModeRequest) (control.ModeResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := control.ModeResult{Recorded: true}
	for i := range r.pools {
		p := &r.pools[i]
		if o.Pool != "" && o.Pool != p.Name {
			continue
		}
		if o.Expected != nil && o.Expected.String() != p.Mode {
			return control.ModeResult{}, control.ErrModeMismatch
		}
		from, err := admission.ParseMode(p.Mode)
		if err != nil {
			return control.ModeResult{}, err
		}
		to := o.Mode
		if o.Action == control.Restore {
			to = admission.Enforce
		}
		p.Mode, p.ModeBy, p.ModeReason, p.ModeSince = to.String(), o.Actor, o.Reason, now
		result.Changes = append(result.Changes, control.ModeChange{ID: "x", Pool: p.Name, Action: o.Action, From: from, To: to, At: now, Actor: o.Actor})
	}
	if len(result.Changes) == 0 {
		return control.ModeResult{}, control.ErrNoPool
	}
	r.modeRequests = append(r.modeRequests, o)
	return result, nil
}

func (r *fakeBackend) Changes(_ context.Context, q api.AuditQuery) (api.AuditRecords, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = q
	return r.page, r.err
}

func (r *fakeBackend) Facts(context.Context, time.Time, string) (ui.PoolFacts, bool) {
	return ui.PoolFacts{
		MaxAge: 25 * time.Second, MaxDepth: 8, Objective: 0.95, Window: 30 * 24 * time.Hour, Good: 990, Bad: 10, Counted: true,
	}, true
}

func (r *fakeBackend) requests() []control.ModeRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.modeRequests)
}

// set changes a pool behind everybody's back.
func (r *fakeBackend) set(change func(*api.PoolStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.pools[0])
}

// fakeActions takes pauses, and remembers them.
type fakeActions struct {
	mu    sync.Mutex
	given []control.ActionRequest
}

func (a *fakeActions) Acts() []control.ActionDef {
	return []control.ActionDef{{Name: "pause"}, {Name: "resume"}}
}

func (a *fakeActions) Do(_ context.Context, _ time.Time, c control.ActionRequest) (control.ActionResult, error) {
	if c.Name == "resume" && c.Pool == "b" {
		return control.ActionResult{}, control.ErrNotPaused
	}
	if !c.DryRun {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.given = append(a.given, c)
	}
	return control.ActionResult{Words: "pool " + c.Pool + " would hand out no worker"}, nil
}

// auditRecorder is an audit in memory.
type auditRecorder struct {
	mu      sync.Mutex
	entries []control.AuditEntry
}

func (n *auditRecorder) Append(e control.AuditEntry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entries = append(n.entries, e)
}

func (n *auditRecorder) last() control.AuditEntry {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.entries) == 0 {
		return control.AuditEntry{}
	}
	return n.entries[len(n.entries)-1]
}

// fakeSamples is samples: the same for every expression.
type fakeSamples struct {
	mu     sync.Mutex
	lines  func(expr string, from, to time.Time, step time.Duration) []tsdb.Series
	broken error
	asked  []string
}

func (s *fakeSamples) QueryRange(_ context.Context, expr string, from, to time.Time, step time.Duration) ([]tsdb.Series, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, expr)
	if s.broken != nil || s.lines == nil {
		return nil, s.broken
	}
	return s.lines(expr, from, to, step), nil
}

// openIncident opens an incident, and returns its ID.
func (r *fixture) openIncident(rule, pool string) string {
	r.Helper()
	r.signals.Set(rule, pool, 15)
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
