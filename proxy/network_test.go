package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
)

// network is what the servers and clients of one rig are joined by: loopback
// sockets where the kernel's ways matter, or pipes in memory, which work in a
// synctest bubble.
type network interface {
	listen(testing.TB) net.Listener
	dial(ctx context.Context, network, address string) (net.Conn, error)
}

type loopback struct{ net.Dialer }

func (*loopback) listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *loopback) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.DialContext(ctx, network, address)
}

// pipes is a network in memory. Its addresses are host names with a port.
type pipes struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
}

func (p *pipes) listen(testing.TB) net.Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == nil {
		p.listeners = make(map[string]*pipeListener)
	}
	l := &pipeListener{
		name:  fmt.Sprintf("host%d.test:80", len(p.listeners)),
		conns: make(chan net.Conn), done: make(chan struct{}),
	}
	p.listeners[l.name] = l
	return l
}

func (p *pipes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[address]
	p.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused")}
	if l == nil {
		return nil, refused
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeListener struct {
	name  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr  { return l }
func (l *pipeListener) Network() string { return "pipe" }
func (l *pipeListener) String() string  { return l.name }

// testServer is one HTTP server on a rig's network.
type testServer struct {
	host    string // with port
	server  *http.Server
	running sync.WaitGroup // the listener and the handlers, those that took their connection included
}

func serve(t testing.TB, n network, server *http.Server) *testServer {
	t.Helper()
	l := n.listen(t)
	s := &testServer{host: l.Addr().String(), server: server}
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.Add(1)
		defer s.running.Done()
		handler.ServeHTTP(w, r)
	})
	s.running.Go(func() { _ = server.Serve(l) }) // ends with the site
	return s
}

func (s *testServer) url() string { return "http://" + s.host }

func (s *testServer) close() {
	_ = s.server.Close()
	s.running.Wait()
}
