package ui_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/api/apitest"
	"headgate/web/ui"
)

const token = "a-token-of-a-test-0123456789"

var errBroken = errors.New("the disk at /some/where is full")

// fixture is a whole admin plane on a listener, over real gates and a record in memory.
type fixture struct {
	*testing.T
	*apitest.Control
	url       string
	admin     *api.Admin
	shown     []control.PoolStatus // what the status says besides modes
	record    *fakeAudit
	auditLog  *auditRecorder
	signals   *apitest.Signals
	incidents *apitest.IncidentStore
	engine    *engine.Engine
	series    *fakeSamples
}

type fixtureOptions struct {
	drills        *api.DrillPorts
	anonymous     bool
	withoutEngine bool
	pools         []control.PoolStatus
}

func newFixture(t *testing.T, o fixtureOptions) *fixture {
	t.Helper()
	if o.pools == nil {
		o.pools = []control.PoolStatus{healthyPool("default")}
	}
	var names []string
	for _, p := range o.pools {
		names = append(names, p.Name)
	}
	log := slog.New(slog.DiscardHandler)
	r := &fixture{
		T: t, Control: apitest.NewControl(t, log, names...), shown: o.pools, record: &fakeAudit{}, auditLog: &auditRecorder{}, signals: apitest.NewSignals(),
		incidents: apitest.NewIncidentStore(), series: &fakeSamples{},
	}
	for _, p := range o.pools {
		r.setMode(p.Name, p.Mode, p.ModeBy)
	}
	c := api.AdminConfig{
		Drills: o.drills, Control: r.Service, Token: token, Status: r, Audit: r.record, Log: log, AnonymousRead: o.anonymous, AuditLog: r.auditLog,
	}
	p := ui.Config{Facts: poolFacts, SLO: sloCounts, Log: log, Control: r.Service}
	if !o.withoutEngine {
		r.engine = apitest.StartEngine(t, 5*time.Millisecond, r.signals, r.incidents, log)
		r.SetEngine(r.engine)
		c.Incidents, p.Samples = r.incidents, r.series
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

// setMode changes a mode without a page.
func (r *fixture) setMode(pool, mode, by string) {
	r.Helper()
	if r.Mode(pool).String() == mode {
		return
	}
	actor := control.Actor{Name: by, Via: control.ViaAPI}
	if _, err := api.SetMode(r.Context(), r.Service, actor, pool, api.ModeRequest{Mode: mode}); err != nil {
		r.Fatal(err)
	}
}

// Status shows the modes of the gates, and all else as the test has it.
func (r *fixture) Status(now time.Time) api.Status {
	s := r.Control.Status(now)
	for i, real := range s.Pools {
		shown := r.shown[i]
		shown.Mode, shown.ModeBy, shown.ModeReason, shown.ModeBefore = real.Mode, real.ModeBy, real.ModeReason, real.ModeBefore
		s.Pools[i] = shown
	}
	return s
}

// fakeAudit has one page.
type fakeAudit struct {
	mu    sync.Mutex
	page  control.AuditPage
	asked control.AuditQuery
	err   error
}

func (r *fakeAudit) Audit(_ context.Context, q control.AuditQuery) (control.AuditPage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = q
	return r.page, r.err
}

// poolFacts are the same for every pool.
func poolFacts(string) (ui.PoolFacts, bool) {
	return ui.PoolFacts{MaxAge: 25 * time.Second, MaxDepth: 8, Objective: 0.95, Window: 30 * 24 * time.Hour}, true
}

func sloCounts(context.Context, string, time.Time) (good, bad int64, err error) { return 990, 10, nil }

// healthyPool is a pool in enforce that serves a little.
func healthyPool(name string) control.PoolStatus {
	recorded, p95, use := true, 41.2, 0.6
	return control.PoolStatus{
		Name: name, Mode: "enforce", ModeSince: time.Now().Add(-time.Hour), ModeBy: "settings", ModeReason: "first start", ModeRecorded: &recorded,
		Policy: "threshold", Workers: 4, InFlight: 3, QueueDepth: 2, QueueOldestAgeS: 4.2, P95TurnaroundS: &p95, SLOS: 60, EnvelopeUse: &use,
		Admitted1m: 12,
	}
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
