package lifecycle

import (
	"bufio"
	"context"
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

	"headgate/internal/testkit"
)

// memoryListener is a listener in memory, so that connections run on a synctest clock.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
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

// A client that is slow with its header or stays idle loses its connection; a header that is too large is rejected.
func TestServerBoundsClients(t *testing.T) {
	const ok = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		wire   string
		answer string
		after  time.Duration
		set    bool // other times are set, of a minute and an hour
	}{
		"nothing sent":        {"", "", readHeaderTimeout, false},
		"half a header":       {"GET / HTTP/1.1\r\nHost", "400 ", readHeaderTimeout, false},
		"half a header, set":  {"GET / HTTP/1.1\r\nHost", "400 ", time.Minute, true},
		"idle after one":      {ok, "200 OK", keepAliveTimeout, false},
		"idle after one, set": {ok, "200 OK", time.Hour, true},
		"header without end":  {"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes), "431 ", time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newMemoryListener()
				handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
				s := newServer("test", l, handler, slog.New(slog.DiscardHandler))
				if c.set {
					s.SetTimeouts(time.Minute, time.Hour)
				}
				s.Serve(nil)
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
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A drain waits for requests in flight; Stop cuts off what is left when its context ends.
func TestServerStop(t *testing.T) {
	cause := errors.New("time is over")
	for name, c := range map[string]struct {
		stop func(context.Context, *Server) error
		want error // with which the context of the request ends
	}{
		"cancelled": {func(ctx context.Context, s *Server) error { s.Cancel(cause); return s.Stop(ctx) }, cause},
		"cut off": {func(_ context.Context, s *Server) error {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			return s.Stop(ended)
		}, context.Canceled},
		"closed": {func(_ context.Context, s *Server) error { return s.Close() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout(10*time.Second))
			defer cancel()
			arrived, ended := make(chan struct{}), make(chan error, 1)
			s, err := Listen("test", Loopback, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-r.Context().Done()
				ended <- context.Cause(r.Context())
			}), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			s.Serve(nil)
			client := Go(func(ctx context.Context) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL(), http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				if answer, err := http.DefaultTransport.RoundTrip(req); err == nil {
					_ = answer.Body.Close()
				}
			})
			<-arrived
			short, cancelShort := context.WithTimeout(ctx, time.Millisecond)
			defer cancelShort()
			if err := s.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("drain with a request in flight: %v", err)
			}
			if err := c.stop(ctx, s); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, c.want) {
				t.Errorf("the request ended with %v, want %v", err, c.want)
			}
			if err := client.Stop(ctx); err != nil {
				t.Error(err)
			}
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		})
	}
}

func TestServerThatDoesNotServe(t *testing.T) {
	s, err := Listen("first", Loopback, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	address := s.Addr()
	if _, err := Listen("second", address, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), "second: ") {
		t.Errorf("the address is taken: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the address is not free: %v", err)
	}
	_ = l.Close()
}

func TestServerThatFails(t *testing.T) {
	l := newMemoryListener()
	s := newServer("planned", l, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	failed := make(chan error, 1)
	s.Serve(failed)
	_ = l.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "planned: ") {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("close: %v", err)
	}
}
