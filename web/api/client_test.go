package api_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"headgate/internal/testkit"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// client returns a client of a served fixture.
func (r *fixture) client(actor string) *api.Client {
	r.Helper()
	return dial(r.T, r.url, actor)
}

func dial(t *testing.T, url, actor string) *api.Client {
	t.Helper()
	c, err := api.NewClient(api.ClientConfig{URL: url, Token: token, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClient(t *testing.T) {
	r := newServedFixture(t)
	c := r.client("ana@host")
	ctx := t.Context()
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	reply, err := c.SetMode(ctx, "a", api.ModeRequest{Mode: "passthrough", Reason: "why"})
	if err != nil || len(reply.Changes) != 1 || reply.Changes[0].Actor != "ana@host" || !reply.Recorded {
		t.Fatalf("reply %+v, %v", reply, err)
	}
	if _, err := c.SetMode(ctx, "", api.ModeRequest{Mode: "observe"}); err != nil {
		t.Fatal(err)
	}
	if r.Mode("a") != admission.Observe || r.Mode("b") != admission.Observe {
		t.Error("not all pools were changed")
	}
	s, err := c.Status(ctx)
	if err != nil || len(s.Pools) != 2 || s.Pools[0].Mode != "observe" {
		t.Errorf("status %+v, %v", s, err)
	}
	page, err := c.Audit(ctx, control.AuditQuery{Since: time.Now().Add(-time.Hour), Pool: "a", Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].Change.To != admission.Observe || page.Next == "" {
		t.Errorf("page %+v, %v", page, err)
	}
	if page.Items[0].At().IsZero() {
		t.Errorf("time %q", page.Items[0].Change.At)
	}
}

func TestClientProblem(t *testing.T) {
	r := newServedFixture(t)
	_, err := r.client("").SetMode(t.Context(), "c", api.ModeRequest{Mode: "observe"})
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != http.StatusNotFound || len(p.Pools) != 2 {
		t.Errorf("error %v", err)
	}
}

// TestClientPools: no name may turn an order for one pool into one for all.
func TestClientPools(t *testing.T) {
	r := newServedFixture(t)
	for _, name := range []string{"..", ".", "a/../b", "%2e%2e", "a b", "A", strings.Repeat("x", 64), "?x", "#", "\n"} {
		if _, err := r.client("").SetMode(t.Context(), name, api.ModeRequest{Mode: "passthrough"}); err == nil {
			t.Errorf("pool %q was accepted", name)
		}
	}
	if r.Mode("a") != admission.Enforce || r.Mode("b") != admission.Enforce {
		t.Error("a mode was changed")
	}
}

func TestClientURLs(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:8485":      "",
		"http://[::1]:8485":          "",
		"http://localhost:8485":      "",
		"http://LOCALHOST:8485/":     "",
		"https://gate.example:8485":  "",
		"https://gate.example/below": "",
		"http://gate.example:8485":   "not sent over plain http to gate.example:8485",
		"http://192.0.2.1:8485":      "use https",
		"http://localhost.evil.test": "not sent over plain http",
		"http://127.0.0.1.evil.test": "not sent over plain http",
		"http://0.0.0.0:8485":        "not sent over plain http",
		"ftp://127.0.0.1":            "must be like",
		"127.0.0.1:8485":             "must be like",
		"":                           "must be like",
		"http://":                    "must be like",
		"http://a:b@127.0.0.1":       "no user",
		"http://127.0.0.1/?x":        "no user, query",
	} {
		_, err := api.NewClient(api.ClientConfig{URL: url, Token: token})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%q: the token is in the error", url)
		}
	}
	if _, err := api.NewClient(api.ClientConfig{URL: "http://127.0.0.1:1", Token: "a\nb"}); err == nil {
		t.Error("a token of two lines")
	}
}

// TestOwnAddress: what is sent to an address of this machine does not leave it.
func TestOwnAddress(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Fatalf("addresses %v, %v", own, err)
	}
	for _, a := range own {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil {
			t.Fatal(err)
		}
		u := &url.URL{Scheme: "http", Host: net.JoinHostPort(ip.String(), "8485")}
		if !api.IsLocal(u) {
			t.Errorf("%s is not local", u)
		}
	}
}

// TestUnreachable: whatever is not an answer of the admin API is silence, and says
// whether an order may have been carried out.
func TestUnreachable(t *testing.T) {
	handler := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	redirect := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			t.Errorf("followed, with %q", r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
	}
	for name, h := range map[string]http.HandlerFunc{
		"a page":          handler(200, "text/html", "<html>"),
		"no JSON":         handler(200, "application/json", "{"),
		"a broken server": handler(500, "application/problem+json", `{"status":500}`),
		"a bad gateway":   handler(502, "text/html", "bad gateway"),
		"another's 404":   handler(404, "text/plain", "404 page not found"),
		"another's 401":   handler(401, "application/json", `{"error":"no"}`),
		"a lying problem": handler(404, "application/problem+json", `{"status":409}`),
		"a redirect":      redirect,
		"cut off":         func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(h)
			defer s.Close()
			_, err := dial(t, s.URL, "").SetMode(t.Context(), "", api.ModeRequest{Mode: "passthrough"})
			var silence *api.UnreachableError
			if !errors.As(err, &silence) || !silence.Sent {
				t.Errorf("error %v, want silence after the order was sent", err)
			}
			if err != nil && strings.Contains(err.Error(), token) {
				t.Error("the token is in the error")
			}
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	l := listen(t)
	l.Close()
	c := dial(t, "http://"+l.Addr().String(), "")
	_, err := c.SetMode(t.Context(), "", api.ModeRequest{Mode: "passthrough"})
	var silence *api.UnreachableError
	if !errors.As(err, &silence) || silence.Sent {
		t.Errorf("error %v, want silence, not sent", err)
	}
	if err := c.Ping(t.Context()); !errors.As(err, &silence) {
		t.Errorf("alive: %v", err)
	}
}

func TestUntrustedTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	_, err := dial(t, s.URL, "").Status(t.Context())
	var silence *api.UnreachableError
	if !errors.As(err, &silence) || silence.Sent {
		t.Errorf("error %v, want silence, not sent", err)
	}
}

// TestPingTimesOut: a listener that takes connections and never answers is reported
// as unreachable within about a second.
func TestPingTimesOut(t *testing.T) {
	l := listen(t) // the kernel accepts connections, no program answers
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout(30*time.Second))
	defer cancel()
	var silence *api.UnreachableError
	if err := dial(t, "http://"+l.Addr().String(), "").Ping(ctx); !errors.As(err, &silence) {
		t.Errorf("error %v", err)
	}
	if ctx.Err() != nil {
		t.Error("the client did not give up by itself")
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestProxyEnvironment: a proxy never sees what is meant for this machine.
func TestProxyEnvironment(t *testing.T) {
	proxied := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	defer proxied.Close()
	t.Setenv("HTTP_PROXY", proxied.URL)
	t.Setenv("http_proxy", proxied.URL)
	r := newServedFixture(t)
	if _, err := r.client("").Status(t.Context()); err != nil {
		t.Error(err)
	}
}
