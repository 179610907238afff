package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/web/api"
)

// TestManyConnections: hundreds that send a header and then nothing are dropped,
// and do not keep the right one from its answer.
func TestManyConnections(t *testing.T) {
	r := newServedFixture(t)
	const n = 300
	address := strings.TrimPrefix(r.url, "http://")
	var all sync.WaitGroup
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "PUT /api/v1/mode HTTP/1.1\r\nHost: x\r\n"); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			_, _ = io.Copy(io.Discard, c) // until the server has enough of it
			_ = c.Close()
		})
	}
	reply, err := r.client("").SetMode(t.Context(), "", api.ModeRequest{Mode: "passthrough"})
	if err != nil || len(reply.Changes) != 2 {
		t.Errorf("reply %+v, %v", reply, err)
	}
	all.Wait()
}

// TestBodyIsBounded: a body that never ends is cut at the limit.
func TestBodyIsBounded(t *testing.T) {
	r := newServedFixture(t)
	endless := &countingReader{}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url+"/api/v1/mode", endless)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	if status, body := r.bare(req); status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", status, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

// countingReader gives spaces, at most 64 MiB of them so that the test ends.
type countingReader struct{ n int }

func (c *countingReader) Read(p []byte) (int, error) {
	if c.n > 64<<20 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = ' '
	}
	c.n += len(p)
	return len(p), nil
}

// pipeListener is a listener in memory, so that a server can run on a test's own clock.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// dialPipe serves a fixture and returns one connection to it.
func dialPipe(t *testing.T, r *fixture) net.Conn {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	s := &http.Server{Handler: r.handler, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { _ = s.Close(); serving.Wait() })
	ours, theirs := net.Pipe()
	l.conns <- theirs
	t.Cleanup(func() { _ = ours.Close() })
	return ours
}

const slowHead = "PUT /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token +
	"\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n"

// TestSlowBody: a body that does not come is waited for 5 s.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		c := dialPipe(t, r)
		start := time.Now()
		fmt.Fprint(c, slowHead+`{"mode":`)
		reply, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		if took := time.Since(start); reply.StatusCode != http.StatusBadRequest || took != 5*time.Second {
			t.Errorf("status %d after %s", reply.StatusCode, took)
		}
		if r.Mode("a") != admission.Enforce {
			t.Error("half an order was carried out")
		}
	})
}

// TestUnauthenticatedBodyIsNotRead: what is not read is not waited for without end either,
// wherever it is sent.
func TestUnauthenticatedBodyIsNotRead(t *testing.T) {
	for _, head := range []string{
		"PUT /api/v1/mode HTTP/1.1\r\nContent-Length: 60000", "GET /healthz HTTP/1.1\r\nContent-Length: 60000",
		"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked", "PUT //api HTTP/1.1\r\nContent-Length: 1",
	} {
		t.Run(head, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := dialPipe(t, newFixture(t))
				start := time.Now()
				fmt.Fprint(c, head+"\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n")
				if _, err := io.ReadAll(c); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > 6*time.Second {
					t.Errorf("held for %s", took)
				}
			})
		})
	}
}

// TestSlowBodyThenSlowRecord: the time for the body does not run on while the
// order waits for its record.
func TestSlowBodyThenSlowRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		synctest.Wait()
		r.Record.SetDelay(1900 * time.Millisecond)
		c := dialPipe(t, r)
		// One pool: the changes of two may be recorded one after the other, each with the delay.
		fmt.Fprint(c, strings.Replace(slowHead, "/mode", "/pools/a/mode", 1)+`{"mode":`)
		time.Sleep(4 * time.Second)
		fmt.Fprint(c, `"passthrough"}`)
		reply, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		if err != nil || reply.StatusCode != http.StatusOK || !strings.Contains(string(body), `"recorded":true`) {
			t.Errorf("status %d, %s, %v", reply.StatusCode, body, err)
		}
	})
}

// TestClientLeaves: an order whose giver has gone is carried out nevertheless.
func TestClientLeaves(t *testing.T) {
	r := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "/api/v1/mode", strings.NewReader(`{"mode":"passthrough"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	r.handler.ServeHTTP(discardWriter{http.Header{}}, req)
	if r.Mode("a") != admission.PassThrough {
		t.Error("not carried out")
	}
}

type discardWriter struct{ h http.Header }

func (d discardWriter) Header() http.Header         { return d.h }
func (d discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (d discardWriter) WriteHeader(int)             {}
