package app

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

// HAProxy, for one, checks with HTTP/1.0 and without Host unless told otherwise.
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

// memoryListener is a listener in memory, for a clock of its own.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *memoryListener) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// A client that is slow with its header, or sends nothing more, loses its
// connection; one whose header is huge is told so.
func TestSlowAndGreedyClientsOfAServer(t *testing.T) {
	const ok = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		wire   string
		answer string
		after  time.Duration
	}{
		"says nothing":       {"", "", readHeaderTimeout},
		"half a header":      {"GET / HTTP/1.1\r\nHost", "400 ", readHeaderTimeout},
		"idle after one":     {ok, "200 OK", keepAliveTimeout},
		"header without end": {"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes), "431 ", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
				handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
				s := newServer(handler, slog.New(slog.DiscardHandler))
				served := make(chan error, 1)
				go func() { served <- s.Serve(l) }()
				ours, theirs := net.Pipe()
				began := time.Now()
				l.conns <- theirs
				go func() { _, _ = io.WriteString(ours, c.wire) }()
				all, err := io.ReadAll(bufio.NewReader(ours))
				if err != nil || !strings.Contains(string(all), c.answer) || c.answer == "" && len(all) > 0 {
					t.Errorf("%q (%v)", all, err)
				}
				if d := time.Since(began); d > c.after+time.Second || c.after > time.Second && d < c.after {
					t.Errorf("ended after %s, want %s", d, c.after)
				}
				_ = ours.Close()
				_ = s.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}
