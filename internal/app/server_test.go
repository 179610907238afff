package app

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestUnknownHostRejected(t *testing.T) {
	r := newFixture(t, nil)
	for name, c := range map[string]struct{ url, want, kind string }{
		"data":        {"http://" + r.app.DataAddr() + chatPath, `"code":"unknown_host"`, "application/json"},
		"data models": {"http://" + r.app.DataAddr() + "/v1/models", `"code":"unknown_host"`, "application/json"},
		"admin":       {"http://" + r.app.AdminAddr() + "/metrics", `"status":421`, "application/problem+json"},
		"health":      {"http://" + r.app.AdminAddr() + "/healthz", `"status":421`, "application/problem+json"},
	} {
		t.Run(name, func(t *testing.T) {
			req := r.request(http.MethodPost, c.url, chatBody)
			req.Host = "evil.test"
			a := r.do(req)
			if a.status != http.StatusMisdirectedRequest || !strings.Contains(a.body, c.want) || a.header.Get("Content-Type") != c.kind {
				t.Errorf("status %d (%v), %s %s", a.status, a.err, a.header.Get("Content-Type"), a.body)
			}
		})
	}
	if len(r.upstream.arrived) != 0 {
		t.Error("the model was asked")
	}
}

// HAProxy's health checks use HTTP/1.0 without Host by default.
func TestRequestsWithoutHost(t *testing.T) {
	r := newFixture(t, nil)
	for request, want := range map[string]string{
		"GET /readyz HTTP/1.0\r\n\r\n":                               "HTTP/1.0 200 ",
		"GET /readyz HTTP/1.0\r\nHost: evil.test\r\n\r\n":            "HTTP/1.0 421 ",
		"GET http://evil.test/readyz HTTP/1.0\r\n\r\n":               "HTTP/1.0 421 ",
		"GET /readyz HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n": "HTTP/1.1 421 ",
		"GET /readyz HTTP/1.1\r\nConnection: close\r\n\r\n":          "HTTP/1.1 400 ",
		"GET /api/v1/status HTTP/1.0\r\n\r\n":                        "HTTP/1.0 401 ",
	} {
		conn, err := net.Dial("tcp", r.app.AdminAddr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, request)
		got, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%q: %.100q (%v), want %s", request, got, err, want)
		}
	}
}
