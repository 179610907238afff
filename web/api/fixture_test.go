package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/web/api"
	"headgate/web/api/apitest"
)

const token = "a-token-of-a-test-0123456789"

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

// fixture is an admin API over real gates.
type fixture struct {
	*testing.T
	*apitest.Control
	log     *safeBuffer
	handler http.Handler
	url     string // of the listener, when there is one
}

// newFixture has pools a and b, both in enforce with two workers, recorded. There is
// no listener.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := &fixture{T: t, log: &safeBuffer{}}
	r.Control = apitest.NewControl(t, slog.New(slog.NewTextHandler(r.log, nil)), "a", "b")
	r.serve(api.AdminConfig{})
	return r
}

// serve makes the admin API anew, with what a test sets besides.
func (r *fixture) serve(c api.AdminConfig) *api.Admin {
	r.Helper()
	c.Token, c.Control, c.Status, c.Audit, c.Log = token, r.Service, r.Control, r.Record, slog.New(slog.NewTextHandler(r.log, nil))
	admin, err := api.NewAdmin(c)
	if err != nil {
		r.Fatal(err)
	}
	r.handler = api.Handler(api.Ops{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }}, admin)
	return admin
}

// newServedFixture is a fixture on a loopback listener.
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
