package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/internal/testkit"
	"headgate/runbooks/control"
)

// waitTimeout is how long a condition may take to come true.
var waitTimeout = testkit.Timeout(20 * time.Second)

const (
	chatPath = "/v1/chat/completions"
	chatBody = `{"model":"m","messages":[]}`
)

// blockingUpstream is an upstream whose answers wait until the test lets them go.
type blockingUpstream struct {
	server  *httptest.Server
	arrived chan struct{} // one for each call
	release chan struct{} // closed: all answers go
}

func newBlockingUpstream(t *testing.T) *blockingUpstream {
	m := &blockingUpstream{arrived: make(chan struct{}, 1000), release: make(chan struct{})}
	m.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		m.arrived <- struct{}{}
		select {
		case <-m.release:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(m.server.Close)
	return m
}

// fixture is a running App in front of a model.
type fixture struct {
	*testing.T
	app      *App
	upstream *blockingUpstream
	client   *http.Client
	logs     *logBuffer
}

// testConfig are those of a small App on free ports.
func testConfig(t *testing.T, upstream string) *config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.DataDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	cfg.Pools[0].Upstream = upstream + "/v1"
	cfg.Pools[0].Workers = 1
	return cfg
}

func newFixture(t *testing.T, edit func(*config.Config), options ...Option) *fixture {
	t.Helper()
	r := &fixture{T: t, upstream: newBlockingUpstream(t), logs: new(logBuffer)}
	cfg := testConfig(t, r.upstream.server.URL)
	if edit != nil {
		edit(cfg)
	}
	var err error
	log := slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if r.app, err = New(cfg, "test", log, append([]Option{Ephemeral()}, options...)...); err != nil {
		t.Fatal(err)
	}
	if err := r.app.Start(); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	r.client = &http.Client{Transport: transport, Timeout: waitTimeout}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = r.app.Stop(t.Context()) // the test's context is over: what is left is cut off
	})
	return r
}

// response is a response that was read to its end.
type response struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *fixture) do(req *http.Request) response {
	res, err := r.client.Do(req)
	if err != nil {
		return response{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, string(body), err}
}

func (r *fixture) request(method, url, body string) *http.Request {
	r.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// sendChat sends a chat request in the background.
func (r *fixture) sendChat() <-chan response {
	r.Helper()
	req := r.request(http.MethodPost, "http://"+r.app.DataAddr()+chatPath, chatBody)
	c := make(chan response, 1)
	go func() { c <- r.do(req) }()
	return c
}

func (r *fixture) getAdmin(path string) response {
	r.Helper()
	return r.do(r.request(http.MethodGet, "http://"+r.app.AdminAddr()+path, ""))
}

// fill lets one task run and n wait.
func (r *fixture) fill(n int) (running <-chan response, waiting []<-chan response) {
	r.Helper()
	running = r.sendChat()
	<-r.upstream.arrived
	for i := range n {
		waiting = append(waiting, r.sendChat())
		r.eventually("it waits", func() bool { return r.depth() == i+1 })
	}
	return running, waiting
}

func (r *fixture) depth() int { return r.app.Pools()[0].Gate.Snapshot(time.Now()).Depth }

func (r *fixture) eventually(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(waitTimeout); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within %s: %s\n%s", waitTimeout, what, r.logs)
		}
	}
}

// logBuffer keeps a log that many goroutines write.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func entriesOf(p control.AuditPage) (entries []control.AuditEntry) {
	for _, r := range p.Items {
		if r.Entry != nil {
			entries = append(entries, *r.Entry)
		}
	}
	return entries
}
