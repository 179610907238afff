package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

const token = "a-token-of-a-test-0123456789"

// fakeRecord is a journal in memory. It can refuse, and it can be slow.
type fakeRecord struct {
	mu      sync.Mutex
	changes []control.ModeChange
	entries []control.AuditEntry
	err     error
	delay   time.Duration
}

func (r *fakeRecord) RecordChanges(ctx context.Context, changes []control.ModeChange, _ int64) error {
	r.mu.Lock()
	slow, broken := r.delay, r.err
	r.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if broken != nil {
		return broken
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, changes...)
	return nil
}

func (r *fakeRecord) ModeStates(context.Context) ([]control.ModeState, error) { return nil, nil }

func (r *fakeRecord) QueuedRequests(context.Context, int64) ([]control.QueuedRequest, error) {
	return nil, nil
}

func (r *fakeRecord) setError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Changes pages through the record by the ID of the last change shown.
func (r *fakeRecord) Changes(_ context.Context, q api.AuditQuery) (api.AuditRecords, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return api.AuditRecords{}, r.err
	}
	var page api.AuditRecords
	for _, e := range r.entries {
		if q.Kind != api.KindMode && (q.Kind == "" || q.Kind == string(e.Kind)) {
			page.Entries = append(page.Entries, e)
		}
	}
	all := slices.Clone(r.changes)
	if q.Kind != "" && q.Kind != api.KindMode {
		all = nil
	}
	slices.Reverse(all)
	if q.After != "" {
		i := slices.IndexFunc(all, func(c control.ModeChange) bool { return c.ID == q.After })
		if i < 0 {
			return api.AuditRecords{}, api.ErrUnknownCursor
		}
		all = all[i+1:]
	}
	all = slices.DeleteFunc(all, func(c control.ModeChange) bool {
		return c.At.Before(q.Since) || q.Pool != "" && q.Pool != c.Pool
	})
	if len(all) <= q.Limit {
		page.Changes = all
		return page, nil
	}
	page.Changes, page.Next = all[:q.Limit], all[q.Limit-1].ID
	return page, nil
}

// append adds an entry. Entries stand on the first page.
func (r *fakeRecord) append(e control.AuditEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
}

func (r *fakeRecord) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.changes)
}

// safeBuffer is what a log goes to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// fixture is an admin API over real gates and their controller.
type fixture struct {
	*testing.T
	names      []string
	gates      map[string]*admission.Gate
	controller *control.Controller
	record     *fakeRecord
	log        *safeBuffer
	handler    http.Handler
	url        string // of the listener, when there is one
}

// newFixture has pools a and b, both in enforce with two workers, recorded. There is
// no listener.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := &fixture{T: t, names: []string{"a", "b"}, gates: map[string]*admission.Gate{}, record: &fakeRecord{}, log: &safeBuffer{}}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	reg := prometheus.NewRegistry()
	metrics, err := control.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	r.controller = control.NewController(control.Config{Journal: r.record, Writer: "w", Log: log, Metrics: metrics})
	for _, name := range r.names {
		g, err := admission.New(admission.Config{
			Workers: 2, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}, QueueLimit: 100, AssumedService: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		r.gates[name] = g
		r.controller.Add(time.Now(), name, g)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.controller.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	for !r.controller.Recorded("a") || !r.controller.Recorded("b") { // their first start
		time.Sleep(time.Millisecond)
	}
	admin, err := api.NewAdmin(api.AdminConfig{Token: token, Modes: r.controller, Status: r, Audit: r.record, Log: log, Actions: r.actions(metrics)})
	if err != nil {
		t.Fatal(err)
	}
	r.handler = api.Handler(api.Ops{Metrics: reg, Ready: func() error { return nil }}, admin)
	return r
}

// actions are all there are, but for those on incidents. What they note goes into
// the record.
func (r *fixture) actions(m *control.Metrics) *control.Registry {
	pauses := control.NewPauses(r.record, r.controller, slogDiscard(), m)
	return control.NewRegistry(r.controller, pauses, nil, recordAuditLog{r.record})
}

// recordAuditLog notes entries.
type recordAuditLog struct{ r *fakeRecord }

func (n recordAuditLog) Append(e control.AuditEntry) { n.r.append(e) }

// SavePause implements control.PauseStore.
func (r *fakeRecord) SavePause(context.Context, control.Pause) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Pauses implements control.PauseStore.
func (r *fakeRecord) Pauses(context.Context) ([]control.Pause, error) { return nil, nil }

// newServedFixture is a rig on a loopback listener.
func newServedFixture(t *testing.T) *fixture {
	t.Helper()
	r := newFixture(t)
	s := httptest.NewUnstartedServer(r.handler)
	s.Config.ReadHeaderTimeout = 200 * time.Millisecond
	s.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(r.log, nil), slog.LevelDebug)
	s.Start()
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// Status reads the gates as the real program does.
func (r *fixture) Status(now time.Time) api.Status {
	s := api.Status{Version: "test"}
	for _, name := range r.names {
		g := r.gates[name].Snapshot(now)
		standing, _ := r.controller.State(name)
		overdue, drain := r.gates[name].Overdue(now)
		recorded := r.controller.Recorded(name)
		p := api.PoolStatus{
			Name: name, Mode: g.Mode.String(), ModeSince: standing.Since, ModeBy: standing.Actor, ModeReason: standing.Reason, ModeRecorded: &recorded,
			Workers: g.Workers, InFlight: g.InFlight, QueueDepth: g.Depth, QueueOldestAgeS: api.Seconds(g.OldestAge),
			Policy: g.Policy, Overdue: overdue, DrainS: api.Seconds(drain), SLOS: 60,
		}
		if g.Mode == admission.PassThrough {
			before := standing.RestoreMode.String()
			p.ModeBefore = &before
		}
		s.Pools = append(s.Pools, p)
	}
	return s
}

func (r *fixture) mode(pool string) admission.Mode { return r.gates[pool].Snapshot(time.Now()).Mode }

// fill lets n tasks into a pool that all have to end within the given time.
func (r *fixture) fill(pool string, n int, within time.Duration) {
	now := time.Now()
	for range n {
		r.gates[pool].Offer(now, admission.Task{Deadline: now.Add(within), Waiter: nopWaiter{}})
	}
}

// nopWaiter is a waiter that does not care.
type nopWaiter struct{}

func (nopWaiter) Done(admission.Refusal) {}

// testRequest is one request and what to change about it.
type testRequest struct {
	method, path, body string
	header             http.Header // replaces; an empty list removes
	remote             string
}

// request makes a request without a listener, with the token and the right type.
func (r *fixture) request(c testRequest) *httptest.ResponseRecorder {
	r.Helper()
	req := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
	req.Header.Set("Authorization", "Bearer "+token)
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range c.header {
		req.Header.Del(name)
		for _, v := range values {
			req.Header.Add(name, v)
		}
	}
	if c.remote != "" {
		req.RemoteAddr = c.remote
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w
}

func (r *fixture) put(path, body string) *httptest.ResponseRecorder {
	r.Helper()
	return r.request(testRequest{method: http.MethodPut, path: path, body: body})
}

// reply reads a successful reply into v.
func (r *fixture) reply(w *httptest.ResponseRecorder, v any) {
	r.Helper()
	if w.Code != http.StatusOK {
		r.Fatalf("status %d: %s", w.Code, w.Body)
	}
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		r.Fatal(err)
	}
}

// problem reads a problem and checks what holds for all of them.
func (r *fixture) problem(w *httptest.ResponseRecorder, status int) api.Problem {
	r.Helper()
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		r.Fatalf("status %d, no problem: %q", w.Code, w.Body)
	}
	if w.Code != status || p.Status != status || p.Type == "" || p.Title == "" || p.Detail == "" {
		r.Errorf("status %d, problem %+v, want %d and every member", w.Code, p, status)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		r.Errorf("content type %q", got)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		r.Errorf("cache control %q", got)
	}
	if strings.Contains(w.Body.String(), token) {
		r.Error("the token is in an answer")
	}
	return p
}

// bare makes a request over the listener and returns its status and body.
func (r *fixture) bare(req *http.Request) (int, string) {
	r.Helper()
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		r.Fatal(err)
	}
	return reply.StatusCode, string(body)
}

var errDisk = errors.New("the disk at /some/where is full")
