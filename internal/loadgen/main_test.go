package loadgen

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memListener is a listener without sockets, which do not work in a synctest bubble.
type memListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (m *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memListener) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (m *memListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (m *memListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.done:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fixture is a server and the client that reaches it, inside a bubble.
type fixture struct {
	*testing.T
	cfg   Config
	start time.Time

	mu      sync.Mutex
	results []Result
}

// withFixture runs f in a bubble beside a server with the handler.
func withFixture(t *testing.T, h http.HandlerFunc, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newMemListener()
		srv := &http.Server{Handler: withBodyRead(h)}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		client := &http.Client{
			Transport:     &http.Transport{DialContext: l.dial, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		w := &fixture{T: t, start: time.Now()}
		w.cfg = Config{URL: "http://memory", Client: client, Observe: w.observe}
		f(w)
		client.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// withBodyRead takes the request body in before the handler: the server notices that
// a client has left only after that.
func withBodyRead(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h(w, r)
	}
}

func (w *fixture) observe(r Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results = append(w.results, r)
}

// run plays arrivals and fails on an error.
func (w *fixture) run(s Arrivals) *Report {
	w.Helper()
	rep, err := Run(w.Context(), w.cfg, s.Source())
	if err != nil {
		w.Fatal(err)
	}
	return rep
}

// runOne runs one arrival and returns its result.
func (w *fixture) runOne() Result {
	w.Helper()
	w.run(arrivalsAt(0))
	if len(w.results) != 1 {
		w.Fatalf("observed %d results, want 1", len(w.results))
	}
	return w.results[0]
}

const (
	answer = `{"choices":[{"message":{"content":"done {\"not the end"},"finish_reason":"stop"}]}`
	stream = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n"
)

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(body))
}

// answerAfter answers when d has passed, unless the client leaves first.
func answerAfter(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			writeJSON(w, answer)
		case <-r.Context().Done():
		}
	}
}
