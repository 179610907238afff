package api_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/auth"
)

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

// authFixture is a fixture with an audit log.
type authFixture struct {
	*fixture
	admin *api.Admin
	notes *auditRecorder
}

func newAuthFixture(t *testing.T, anonymous bool) *authFixture {
	t.Helper()
	r := &authFixture{fixture: newFixture(t), notes: &auditRecorder{}}
	r.admin = r.serve(api.AdminConfig{AnonymousRead: anonymous, AuditLog: r.notes})
	return r
}

// signIn returns the cookie of a new session, and its form token.
func (r *authFixture) signIn() (*http.Cookie, string) {
	r.Helper()
	w := httptest.NewRecorder()
	if ok, _ := r.admin.Auth().SignIn(w, httptest.NewRequest(http.MethodPost, "/login", nil), token, "ana"); !ok {
		r.Fatal("the token does not sign in")
	}
	cookie := w.Result().Cookies()[0]
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.AddCookie(cookie)
	s, ok := r.admin.Auth().Session(req, false)
	if !ok {
		r.Fatal("no session after signing in")
	}
	return cookie, s.FormToken
}

var noToken = http.Header{"Authorization": {}}

func with(h http.Header, name, value string) http.Header {
	h = h.Clone()
	h.Set(name, value)
	return h
}

func TestSessionReadsAndWrites(t *testing.T) {
	r := newAuthFixture(t, false)
	cookie, form := r.signIn()
	signedIn := with(noToken, "Cookie", cookie.String())
	if w := r.request(testRequest{method: http.MethodGet, path: "/api/v1/status", header: signedIn}); w.Code != http.StatusOK {
		t.Errorf("read with a session: %d", w.Code)
	}
	const body = `{"mode":"passthrough","reason":"r"}`
	for name, h := range map[string]http.Header{
		"without a form token":     signedIn,
		"with a wrong one":         with(signedIn, api.FormHeader, "x"),
		"with the token as one":    with(signedIn, api.FormHeader, token),
		"with one, but no session": with(noToken, api.FormHeader, form),
		"of a session that is none": with(with(noToken, api.FormHeader, form), "Cookie",
			cookie.Name+"=AAAAAAAAAAAAAAAAAAAAAAAAAA"),
		"from another site": with(with(signedIn, api.FormHeader, form), "Sec-Fetch-Site", "cross-site"),
	} {
		if w := r.request(testRequest{method: http.MethodPut, path: "/api/v1/mode", body: body, header: h}); w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized {
			t.Errorf("write %s: %d %s", name, w.Code, w.Body)
		}
	}
	if r.Mode("a") != admission.Enforce {
		t.Fatal("a refused write has changed a mode")
	}
	h := with(with(signedIn, api.FormHeader, form), api.ActorHeader, "mallory")
	if w := r.request(testRequest{method: http.MethodPut, path: "/api/v1/mode", body: body, header: h}); w.Code != http.StatusOK {
		t.Errorf("write with a session: %d %s", w.Code, w.Body)
	}
	if s, _ := r.Modes.State("a"); s.Mode != admission.PassThrough || s.Actor != "ana" {
		t.Errorf("the mode is %s by %q, want passthrough by the one who signed in", s.Mode, s.Actor)
	}
}

func TestSigningInAndOutIsRecorded(t *testing.T) {
	r := newAuthFixture(t, false)
	authn := r.admin.Auth()
	cookie, _ := r.signIn()
	if e := r.notes.last(); e.Kind != control.KindAccess || e.Action != "login" || e.Result != control.Done || e.Actor != "ana" || e.At.IsZero() || e.Via != control.ViaPage {
		t.Errorf("a login is recorded as %+v", e)
	}
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/login", nil)
	if ok, _ := authn.SignIn(w, req, "not the token at all", "ben"); ok || len(w.Result().Cookies()) > 0 {
		t.Error("a wrong token signs in")
	}
	if e := r.notes.last(); e.Result != control.Refused || e.Action != "login" || strings.Contains(e.Reason, "not the token") {
		t.Errorf("a wrong token is recorded as %+v", e)
	}
	out := httptest.NewRequest(http.MethodPost, "/logout", nil)
	out.AddCookie(cookie)
	w = httptest.NewRecorder()
	authn.SignOut(w, out)
	if e := r.notes.last(); e.Action != "logout" || e.Actor != "ana" {
		t.Errorf("a logout is recorded as %+v", e)
	}
	if got := w.Result().Cookies(); len(got) != 1 || got[0].MaxAge >= 0 {
		t.Errorf("the cookie stays: %v", got)
	}
	if _, ok := authn.Session(out, false); ok {
		t.Error("the session is there after signing out")
	}
}

// TestRejectionsAreRateLimitedInAudit: a client that makes many of them cannot fill the
// record, and has to wait.
func TestRejectionsAreRateLimitedInAudit(t *testing.T) {
	r := newAuthFixture(t, false)
	var wait time.Duration
	for range 200 {
		_, wait = r.admin.Auth().SignIn(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/login", nil), "wrong token", "")
	}
	if n := len(r.notes.entries); n == 0 || n > 20 || wait <= 0 {
		t.Errorf("%d entries of 200 attempts, then to wait %s", n, wait)
	}
	if ok, _ := r.admin.Auth().SignIn(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/login", nil), token, ""); !ok {
		t.Error("the right token is held back")
	}
}

func TestLinkSignsInOnce(t *testing.T) {
	r := newAuthFixture(t, false)
	w := r.request(testRequest{method: http.MethodPost, path: "/api/v1/login-links", header: http.Header{api.ActorHeader: {"ana@ops1"}}})
	var link api.LoginLink
	if err := json.Unmarshal(w.Body.Bytes(), &link); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	code, ok := strings.CutPrefix(link.Path, "/login?code=")
	if !ok || time.Until(link.Until) > auth.LinkLifetime {
		t.Fatalf("the link is %+v", link)
	}
	for _, want := range []bool{true, false} {
		w := httptest.NewRecorder()
		if ok, _ := r.admin.Auth().RedeemLink(w, httptest.NewRequest(http.MethodPost, "/login", nil), code); ok != want {
			t.Errorf("entered %t, want %t", ok, want)
		}
		if want != (len(w.Result().Cookies()) == 1) {
			t.Errorf("cookies: %v", w.Result().Cookies())
		}
	}
	if e := r.notes.last(); e.Result != control.Refused || e.Action != "login" {
		t.Errorf("a replayed link is recorded as %+v", e)
	}
	if w := r.request(testRequest{method: http.MethodPost, path: "/api/v1/login-links", header: noToken}); w.Code != http.StatusUnauthorized {
		t.Errorf("a link without the token: %d", w.Code)
	}
}

func TestAnonymousMayOnlyRead(t *testing.T) {
	r := newAuthFixture(t, true)
	for _, path := range []string{"/api/v1/status", "/api/v1/audit"} {
		if w := r.request(testRequest{method: http.MethodGet, path: path, header: noToken}); w.Code != http.StatusOK {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	for _, c := range []testRequest{
		{method: http.MethodPut, path: "/api/v1/mode", body: `{"mode":"passthrough"}`},
		{method: http.MethodPost, path: "/api/v1/login-links"},
		{method: http.MethodDelete, path: "/api/v1/silences/x"},
	} {
		c.header = noToken
		if w := r.request(c); w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s: %d", c.method, c.path, w.Code)
		}
	}
	wrong := http.Header{"Authorization": {"Bearer not-the-token"}}
	if w := r.request(testRequest{method: http.MethodGet, path: "/api/v1/status", header: wrong}); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong token gets no answer: %d", w.Code)
	}
}

func TestCookieFitsTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		name   string
		secure bool
	}{
		"plain":           {func(*http.Request) {}, "headgate-8485", false},
		"without a port":  {func(r *http.Request) { r.Host = "gate.example" }, "headgate-", false},
		"odd port":        {func(r *http.Request) { r.Host = "gate.example:80;x" }, "headgate-", false},
		"TLS":             {func(r *http.Request) { r.TLS = &tls.ConnectionState{} }, "__Host-headgate", true},
		"TLS at a proxy":  {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") }, "__Host-headgate", true},
		"HTTP at a proxy": {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "http") }, "headgate-8485", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newAuthFixture(t, false)
			req := httptest.NewRequest(http.MethodPost, "/login", nil)
			req.Host = "gate.example:8485"
			c.change(req)
			w := httptest.NewRecorder()
			r.admin.Auth().SignIn(w, req, token, "")
			got := w.Result().Cookies()[0]
			if got.Name != c.name || got.Secure != c.secure || !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.Path != "/" || got.Domain != "" {
				t.Errorf("the cookie is %s", got)
			}
			if strings.Contains(got.Value, token) {
				t.Error("the cookie holds the token")
			}
		})
	}
}

// TestSessionGoesIdle: on a virtual clock, with the page that refreshes itself.
func TestSessionGoesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAuthFixture(t, false)
		cookie, _ := r.signIn()
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.AddCookie(cookie)
		time.Sleep(auth.IdleTimeout - time.Minute)
		if _, ok := r.admin.Auth().Session(req, true); !ok {
			t.Error("over before it was idle for long")
		}
		time.Sleep(time.Minute)
		if _, ok := r.admin.Auth().Session(req, true); ok {
			t.Error("refreshing has kept the session open")
		}
	})
}

func TestTokens(t *testing.T) {
	tests := []struct {
		name  string
		given []string
	}{
		{"none", nil},
		{"empty", []string{""}},
		{"only the scheme", []string{"Bearer"}},
		{"empty bearer", []string{"Bearer "}},
		{"wrong", []string{"Bearer a-token-of-a-test-9876543210"}},
		{"a prefix", []string{"Bearer " + token[:len(token)-1]}},
		{"more", []string{"Bearer " + token + "x"}},
		{"two spaces", []string{"Bearer  " + token}},
		{"other scheme", []string{"Basic " + token}},
		{"no scheme", []string{token}},
		{"huge", []string{"Bearer " + strings.Repeat("x", 60<<10)}},
		{"right and wrong", []string{"Bearer " + token, "Bearer wrong-wrong-wrong"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newFixture(t)
			for _, c := range []testRequest{
				{method: "GET", path: "/api/v1/status"}, {method: "GET", path: "/api/v1/audit"}, {method: "GET", path: "/api/v1/none"},
				{method: "PUT", path: "/api/v1/mode", body: `{"mode":"passthrough"}`}, {method: "GET", path: "/api"},
			} {
				c.header = http.Header{"Authorization": tt.given}
				w := r.request(c)
				p := r.problem(w, http.StatusUnauthorized)
				if p.Type != api.TypeBadToken || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s: problem %+v, header %v", c.path, p, w.Header())
				}
			}
			if r.Mode("a") != admission.Enforce {
				t.Error("an order without the token was carried out")
			}
			if strings.Contains(r.log.String(), token) || strings.Contains(r.log.String(), "xxxx") {
				t.Error("a token is in the log")
			}
		})
	}
}

func TestBearerSyntax(t *testing.T) {
	r := newFixture(t)
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		w := r.request(testRequest{method: "GET", path: "/api/v1/status", header: http.Header{"Authorization": {scheme + " " + token}}})
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", scheme, w.Code)
		}
	}
}

var wrong = http.Header{"Authorization": {"Bearer wrong-wrong-wrong-wrong"}}

// TestAttemptsAreLimited: after a burst wrong tokens get 429, for as long as it
// says, and the log has one line for each that was answered 401. The right token
// works all the while, from the same address.
func TestAttemptsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		guess := func() *httptest.ResponseRecorder {
			return r.request(testRequest{method: "GET", path: "/api/v1/status", header: wrong, remote: "192.0.2.7:1"})
		}
		for i := range 10 {
			if w := guess(); w.Code != http.StatusUnauthorized {
				t.Fatalf("attempt %d: status %d", i, w.Code)
			}
		}
		var wait int
		for range 1000 {
			w := guess()
			r.problem(w, http.StatusTooManyRequests)
			var err error
			if wait, err = strconv.Atoi(w.Header().Get("Retry-After")); err != nil || wait < 1 {
				t.Fatalf("Retry-After %q", w.Header().Get("Retry-After"))
			}
			if w.Header().Get("Connection") != "close" {
				t.Fatal("the connection is kept")
			}
		}
		if n := strings.Count(r.log.String(), "wrong token"); n != 10 {
			t.Errorf("%d lines in the log, want 10", n)
		}
		if w := r.request(testRequest{method: "PUT", path: "/api/v1/mode", body: `{"mode":"passthrough"}`, remote: "192.0.2.7:2"}); w.Code != http.StatusOK {
			t.Errorf("the right token was locked out: %d", w.Code)
		}
		if w := r.request(testRequest{method: "GET", path: "/api/v1/status", header: wrong, remote: "192.0.2.8:1"}); w.Code != http.StatusUnauthorized {
			t.Errorf("another address: status %d", w.Code)
		}
		time.Sleep(time.Duration(wait) * time.Second)
		if w := guess(); w.Code != http.StatusUnauthorized {
			t.Errorf("after the wait: status %d", w.Code)
		}
		if !strings.Contains(r.log.String(), "withheld=1000") {
			t.Errorf("the log does not say how many were withheld: %s", r.log)
		}
	})
}

// TestAttemptsFromEverywhere: many addresses together are limited too, and what
// is remembered of them is bounded.
func TestAttemptsFromEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		answers := map[int]int{}
		for i := range 5000 {
			remote := fmt.Sprintf("[2001:db8:%x::1]:9", i)
			answers[r.request(testRequest{method: "GET", path: "/api/v1/status", header: wrong, remote: remote}).Code]++
		}
		if answers[http.StatusUnauthorized] != 100 || answers[http.StatusTooManyRequests] != 4900 {
			t.Errorf("answers %v, want 100 times 401", answers)
		}
		if w := r.request(testRequest{method: "GET", path: "/api/v1/status", remote: "[2001:db8::1]:9"}); w.Code != http.StatusOK {
			t.Errorf("the right token was locked out: %d", w.Code)
		}
	})
}

func TestCheckToken(t *testing.T) {
	for _, bad := range []string{"", "short", strings.Repeat("x", 513), "with a space in the middle", "with-a-line-end-x\n", "caféeeeeeeeeeeeeee"} {
		err := auth.CheckToken(bad)
		if err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("token %q: %v", bad, err)
		}
		if _, err := api.NewAdmin(api.AdminConfig{Token: bad}); err == nil {
			t.Errorf("an admin API with the token %q", bad)
		}
	}
	for _, good := range []string{token, strings.Repeat("x", 16), strings.Repeat("~", 512)} {
		if err := auth.CheckToken(good); err != nil {
			t.Errorf("token %q: %v", good, err)
		}
	}
	if _, err := api.NewAdmin(api.AdminConfig{Token: token}); err == nil {
		t.Error("an admin API without anything behind it")
	}
}
