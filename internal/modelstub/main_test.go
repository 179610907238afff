package modelstub

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"headgate/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a stub on a loopback port with its own client.
type testServer struct {
	*Stub
	t      *testing.T
	url    string
	client *http.Client
}

func newTestServer(t *testing.T, config Config) *testServer {
	t.Helper()
	stub, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(stub)
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		stub.Close()
		transport.CloseIdleConnections()
		srv.Close()
	})
	return &testServer{Stub: stub, t: t, url: srv.URL, client: &http.Client{Transport: transport}}
}

// headers pairs names and values.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func (s *testServer) request(ctx context.Context, method, path, body string, h http.Header) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, values := range h {
		req.Header[name] = values
	}
	return req
}

// result is an answer as far as it came.
type result struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	length  int64
	err     error // of the call or of reading the body
}

func (s *testServer) do(method, path, body string, h http.Header) result {
	s.t.Helper()
	resp, err := s.client.Do(s.request(s.t.Context(), method, path, body, h))
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return result{resp.StatusCode, resp.Header, resp.Trailer, string(b), resp.ContentLength, err}
}

func (s *testServer) post(path, body string, pairs ...string) result {
	s.t.Helper()
	return s.do(http.MethodPost, path, body, headers(pairs...))
}

// ok posts and expects a whole answer.
func (s *testServer) ok(path, body string, pairs ...string) result {
	s.t.Helper()
	r := s.post(path, body, pairs...)
	if r.err != nil || r.status != http.StatusOK {
		s.t.Fatalf("POST %s %s: status %d, error %v, body %s", path, body, r.status, r.err, r.body)
	}
	return r
}

// eventually waits for what the server is about to notice.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := testkit.Timeout(10 * time.Second)
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(time.Millisecond)
	}
}

func decode(t *testing.T, body string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("not a JSON object: %v in %q", err, body)
	}
	return v
}

// jsonAt walks into decoded JSON by names and indexes.
func jsonAt(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch key := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("no object at %v of %v", key, path)
			}
			if v, ok = m[key]; !ok {
				t.Fatalf("no %q at %v in %v", key, path, m)
			}
		case int:
			a, ok := v.([]any)
			if !ok || key >= len(a) {
				t.Fatalf("no element %d of %v in %v", key, path, v)
			}
			v = a[key]
		}
	}
	return v
}

// sse is one event of a stream: its name and its data.
type sse struct{ name, data string }

func events(t *testing.T, body string) []sse {
	t.Helper()
	var out []sse
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e sse
		for line := range strings.SplitSeq(block, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.data = data
			} else {
				t.Fatalf("line %q is neither event nor data", line)
			}
		}
		out = append(out, e)
	}
	return out
}

// pipeListener is a listener in memory, for tests on a virtual clock.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	client, srv := net.Pipe()
	select {
	case l.conns <- srv:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// newInMemoryServer is serve for use inside a synctest bubble. Stop it before the
// bubble ends.
func newInMemoryServer(t *testing.T, config Config) (s *testServer, stop func()) {
	t.Helper()
	stub, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	l := newPipeListener()
	srv := &http.Server{Handler: stub}
	go func() { _ = srv.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial, DisableCompression: true}
	stop = func() {
		stub.Close()
		transport.CloseIdleConnections()
		_ = srv.Close()
	}
	return &testServer{Stub: stub, t: t, url: "http://stub", client: &http.Client{Transport: transport}}, stop
}

// arrivals reads a stream event by event with the time at which each came.
func arrivals(t *testing.T, s *testServer, path, body string, pairs ...string) (times []time.Duration, err error) {
	t.Helper()
	begin := time.Now()
	resp, err := s.client.Do(s.request(t.Context(), http.MethodPost, path, body, headers(pairs...)))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return times, nil
		}
		if err != nil {
			return times, err
		}
		if strings.HasPrefix(line, "data: ") {
			times = append(times, time.Since(begin))
		}
	}
}
