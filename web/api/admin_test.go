package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"headgate/proxy/admission"
	"headgate/runbooks"
	"headgate/web/api"
)

func TestCrossSite(t *testing.T) {
	tests := []struct {
		name   string
		method string
		header http.Header
		let    bool
	}{
		{"a page of another site", "PUT", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, false},
		{"a page of a neighbour", "PUT", http.Header{"Sec-Fetch-Site": {"same-site"}}, false},
		{"an old browser", "PUT", http.Header{"Origin": {"https://evil.example"}}, false},
		{"a sandboxed page", "PUT", http.Header{"Origin": {"null"}}, false},
		{"a form", "POST", http.Header{"Origin": {"https://evil.example"}, "Content-Type": {"text/plain"}}, false},
		{"our own page", "PUT", http.Header{"Sec-Fetch-Site": {"same-origin"}}, true},
		{"no browser", "PUT", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newFixture(t)
			w := r.request(testRequest{method: tt.method, path: "/api/v1/mode", body: `{"mode":"passthrough"}`, header: tt.header})
			if tt.let {
				if w.Code != http.StatusOK || r.Mode("a") != admission.PassThrough {
					t.Errorf("status %d", w.Code)
				}
				return
			}
			if p := r.problem(w, http.StatusForbidden); p.Type != api.TypeCrossSite {
				t.Errorf("problem %+v", p)
			}
			if r.Mode("a") != admission.Enforce {
				t.Error("the order of another site was carried out")
			}
			if log := r.log.String(); !strings.Contains(log, "another site") || !strings.Contains(log, "path=/api/v1/mode") {
				t.Errorf("not in the log: %s", log)
			}
		})
	}
}

// TestCrossSiteFlood: such requests cannot fill the log, and every one is refused.
func TestCrossSiteFlood(t *testing.T) {
	r := newFixture(t)
	for range 500 {
		w := r.request(testRequest{method: "PUT", path: "/api/v1/mode?" + strings.Repeat("x", 3000), header: http.Header{"Origin": {"https://evil.example/" + strings.Repeat("y", 3000)}}})
		if w.Code != http.StatusForbidden {
			t.Fatalf("status %d", w.Code)
		}
	}
	if n := len(r.log.String()); n > 20_000 {
		t.Errorf("%d bytes in the log", n)
	}
}

func TestRoutes(t *testing.T) {
	tests := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/api/v1/status", 200, ""},
		{"HEAD", "/api/v1/status", 200, ""},
		{"POST", "/api/v1/status", 405, "GET, HEAD"},
		{"GET", "/api/v1/mode", 405, "PUT"},
		{"POST", "/api/v1/mode", 405, "PUT"},
		{"OPTIONS", "/api/v1/pools/a/mode", 405, "PUT"},
		{"DELETE", "/api/v1/audit", 405, "GET, HEAD"},
		{"HEAD", "/healthz", 200, ""},
		{"POST", "/healthz", 405, "GET, HEAD"},
		{"PUT", "/readyz", 405, "GET, HEAD"},
		{"POST", "/metrics", 405, "GET, HEAD"},
		{"POST", "/nothing", 404, ""},
		{"GET", "/api/v1/", 404, ""},
		{"GET", "/api/v1/nothing", 404, ""},
		{"GET", "/api", 404, ""},
		{"GET", "/api/v1/status/", 404, ""},
		{"PUT", "/api/v1/pools//mode", 404, ""},
		{"PUT", "/api/v1/pools/../mode", 404, ""},
		{"PUT", "/api/v1/pools/%2e%2e/mode", 404, ""},
		{"PUT", "//api/v1/mode", 404, ""},
		{"GET", "/api/v1/status?x=1", 400, ""},
		{"PUT", "/api/v1/mode?pool=a", 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			r := newFixture(t)
			c := testRequest{method: tt.method, path: tt.path}
			if tt.method == "PUT" {
				c.body = `{"mode":"passthrough"}`
			}
			w := r.request(c)
			if w.Code != tt.status || w.Header().Get("Allow") != tt.allow {
				t.Errorf("status %d, Allow %q: %s", w.Code, w.Header().Get("Allow"), w.Body)
			}
			if tt.status >= 400 {
				r.problem(w, tt.status)
			}
			if r.Mode("a") != admission.Enforce || r.Mode("b") != admission.Enforce {
				t.Error("a mode was changed")
			}
		})
	}
}

func TestStatus(t *testing.T) {
	r := newFixture(t)
	r.put("/api/v1/pools/a/mode", `{"mode":"passthrough","reason":"why"}`)
	r.Fill("a", 3, 0)
	w := r.request(testRequest{method: "GET", path: "/api/v1/status"})
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("cache control %q", got)
	}
	var raw struct {
		Pools     []map[string]any `json:"pools"`
		Incidents []any            `json:"incidents_open"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &raw); err != nil {
		t.Fatal(err)
	}
	if raw.Incidents == nil {
		t.Error("incidents_open is null, not empty")
	}
	want := map[string]any{
		"name": "a", "mode": "passthrough", "mode_by": "api", "mode_reason": "why", "mode_before": "enforce",
		"workers": 2.0, "in_flight": 2.0, "queue_depth": 1.0, "p95_turnaround_s": nil, "envelope_use": nil, "slo_s": 60.0,
	}
	for key, value := range want {
		if got, ok := raw.Pools[0][key]; !ok || got != value {
			t.Errorf("%s is %v, want %v", key, got, value)
		}
	}
	if raw.Pools[1]["mode_before"] != nil {
		t.Errorf("mode_before of a pool that enforces: %v", raw.Pools[1]["mode_before"])
	}
}

// TestOpenEndpoints: probes and scrapers need no token, and the API's paths do
// not fall through to them.
func TestOpenEndpoints(t *testing.T) {
	r := newFixture(t)
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/apis": 404} {
		w := r.request(testRequest{method: "GET", path: path, header: http.Header{"Authorization": nil}})
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", path, w.Code, status)
		}
	}
}

// TestRunbooksAreOpen: the person on call reads the page behind the link, without a
// token.
func TestRunbooksAreOpen(t *testing.T) {
	h := api.Ops{}.Handler()
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	for _, name := range runbooks.PageNames() {
		w := get("/runbooks/" + name)
		page, _ := runbooks.Page(name)
		if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != strings.TrimSpace(page) {
			t.Errorf("%s: status %d, %d bytes", name, w.Code, w.Body.Len())
		}
		if kind := w.Header().Get("Content-Type"); kind != "text/plain; charset=utf-8" {
			t.Errorf("%s: %s", name, kind)
		}
	}
	for _, path := range []string{"/runbooks/nothing", "/runbooks/..", "/runbooks/doc.go", "/runbooks/"} {
		if w := get(path); w.Code == http.StatusOK {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
