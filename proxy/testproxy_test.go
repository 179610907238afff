package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"headgate/internal/modelstub"
	"headgate/internal/testkit"
	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// waitTimeout is how long a condition may take to come true on the wall clock.
var waitTimeout = testkit.Timeout(20 * time.Second)

// fixture is what a rig is built from; newTestProxy fills in what a test leaves alone.
type fixture struct {
	network  network
	upstream http.Handler     // instead of a stub
	stub     modelstub.Config // of the stub
	gate     admission.Config
	pool     Pool
	config   Config
	base     func() context.Context  // of the data plane's requests
	more     func(*testProxy) []Pool // further pools, once there is a network
}

// testProxy is a whole data plane: client, proxy, gate, upstream, all in one process.
// When its test is over it checks that nothing is held any more and that every
// task was observed once.
type testProxy struct {
	testing.TB
	network            network
	stub               *modelstub.Stub
	upstream           *testServer
	server             *testServer
	gate               *admission.Gate
	proxy              *Proxy
	recorder           *recorder
	metrics            *Metrics
	registry           *prometheus.Registry
	logs               *logBuffer
	config             Config
	client             *http.Client
	allowFalseRefusals bool // the test has given the gate a fault: refusals may be false
}

func newTestProxy(t testing.TB, edit func(*fixture)) *testProxy {
	t.Helper()
	p := fixture{network: new(loopback), gate: admission.Config{
		Workers: 4, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2},
		QueueLimit: 10000, AssumedService: 15 * time.Second, Monitor: invariant.New(),
	}, pool: Pool{
		Name: "main", Models: []string{"*"}, SLO: 60 * time.Second, ConnectTimeout: 5 * time.Second,
		IdleTimeout: 120 * time.Second, Connections: Connections{Idle: 4 * time.Second, MaxAge: time.Minute}, BodyLimit: 4 << 20, BufferLimit: 64 << 20,
	}}
	if edit != nil {
		edit(&p)
	}
	r := &testProxy{TB: t, network: p.network, recorder: newRecorder(t), logs: new(logBuffer), registry: prometheus.NewRegistry()}
	r.startUpstream(p)
	r.startProxy(p)
	r.client = &http.Client{Transport: &http.Transport{
		DialContext: r.network.dial, DisableCompression: true, MaxIdleConnsPerHost: 1000,
	}}
	t.Cleanup(r.close)
	return r
}

func (r *testProxy) startUpstream(p fixture) {
	if p.upstream == nil {
		r.stub = must(modelstub.New(p.stub))
		p.upstream = r.stub
	}
	r.upstream = serve(r, r.network, &http.Server{Handler: p.upstream, ErrorLog: discardLog()})
}

func (r *testProxy) startProxy(p fixture) {
	r.gate = must(admission.New(p.gate))
	p.pool.Gate = r.gate
	if p.pool.Upstream == nil {
		p.pool.Upstream = must(url.Parse(r.upstream.url() + "/v1"))
	}
	p.config.Pools = append(p.config.Pools, p.pool)
	if p.more != nil {
		p.config.Pools = append(p.config.Pools, p.more(r)...)
	}
	r.metrics = must(NewMetrics(r.registry))
	for i := range p.config.Pools {
		pool := &p.config.Pools[i]
		if err := r.metrics.AddPool(pool.Name, pool.SLO, pool.Gate); err != nil {
			r.Fatal(err)
		}
		if _, real := r.network.(*loopback); pool.Transport == nil && !real {
			pool.Transport = r.pipeTransport(*pool)
		}
	}
	// The metrics count first: once the recorder is balanced, they have every outcome.
	p.config.Observer = teeObserver{r.metrics, r.recorder}
	p.config.Log = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.config = p.config
	r.proxy = must(New(p.config))
	server := &http.Server{Handler: r.proxy, ErrorLog: discardLog(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	if p.base != nil {
		server.BaseContext = func(netListener) context.Context { return p.base() }
	}
	r.server = serve(r, r.network, server)
}

// pipeTransport is a pool's own transport, on the network in memory.
func (r *testProxy) pipeTransport(p Pool) *upstreamConns {
	conns := newUpstreamConns(func() *http.Transport {
		transport := newTransport(p)
		transport.DialContext = limitAge(r.network.dial, p.Connections.MaxAge)
		return transport
	})
	conns.onRetry = func(req *http.Request, err error) { retryReporter(p.Name, r.config)(req, err) }
	return conns
}

// close checks the books, then takes everything down.
func (r *testProxy) close() {
	r.wantIdle()
	r.client.CloseIdleConnections()
	r.server.close()
	r.proxy.Close()
	if r.stub != nil {
		r.stub.Close()
	}
	r.upstream.close()
}

// wantIdle waits until nothing is going on, and checks that the books agree.
func (r *testProxy) wantIdle() {
	r.Helper()
	r.eventually("every arrival has ended", r.recorder.balanced)
	r.eventually("nothing is held", func() bool { return r.heldResources() == (resources{}) })
	arrivals, outcomes := r.countedTasks()
	if n := len(r.recorder.all()); arrivals != n || outcomes != n {
		r.Errorf("metrics count %d arrivals and %d outcomes of %d tasks", arrivals, outcomes, n)
	}
	if n := r.sum("headgate_false_refusals_total"); n != 0 && !r.allowFalseRefusals {
		r.Errorf("%v false refusals\n%s", n, r.logs)
	}
}

// resources is what tasks hold at one moment, over all pools.
type resources struct {
	inFlight, depth int
	buffered        int64
}

func (r *testProxy) heldResources() resources {
	tab := r.proxy.routes.Load()
	h := resources{buffered: tab.bodyBudget.used.Load()}
	for _, p := range tab.pools {
		s := p.Gate.Snapshot(time.Now())
		h.inFlight += s.InFlight
		h.depth += s.Depth
		h.buffered += p.bodyBudget.used.Load()
	}
	return h
}

// eventually waits for a condition.
func (r *testProxy) eventually(what string, ok func() bool) {
	r.Helper()
	limit, pause := waitTimeout, time.Millisecond
	if _, real := r.network.(*loopback); !real {
		limit, pause = time.Hour, 10*time.Millisecond
	}
	for end := time.Now().Add(limit); !ok(); time.Sleep(pause) {
		if time.Now().After(end) {
			r.Fatalf("after %s still not so: %s; held %+v, outcomes %v\n%s", limit, what, r.heldResources(), r.recorder.outcomes(), r.logs)
		}
	}
}

// task waits until n tasks have ended and returns the last of them.
func (r *testProxy) task(n int) Observation {
	r.Helper()
	r.eventually("the task has ended", func() bool { return len(r.recorder.all()) >= n })
	all := r.recorder.all()
	if len(all) != n {
		r.Fatalf("%d tasks ended, want %d: %+v", len(all), n, all)
	}
	return all[n-1]
}

// wantOutcome checks the one task's outcome and the status it was answered with.
func (r *testProxy) wantOutcome(o admission.Outcome, status int) Observation {
	r.Helper()
	seen := r.task(1)
	if seen.Outcome != o || seen.Status != status {
		r.Errorf("outcome %s with status %d (%v), want %s with %d", seen.Outcome, seen.Status, seen.Err, o, status)
	}
	return seen
}

// withSynctest runs a test on a clock of its own, over a network in memory.
func withSynctest(t *testing.T, edit func(*fixture), test func(*testProxy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(newTestProxy(t, func(p *fixture) {
			p.network = new(pipes)
			if edit != nil {
				edit(p)
			}
		}))
	})
}

// gatedPosts are endpoints by POST whose requests need a permit.
func gatedPosts(paths ...string) (all []Endpoint) {
	for _, path := range paths {
		all = append(all, Endpoint{Method: http.MethodPost, Path: path, Gate: true})
	}
	return all
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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

// recorder is an Observer that keeps everything and checks the promise of one
// arrival and one end a task.
type recorder struct {
	t testing.TB

	mu      sync.Mutex
	arrived map[string]int // by pool
	ended   []Observation
	ids     map[string]bool
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, arrived: make(map[string]int), ids: make(map[string]bool)}
}

func (r *recorder) OnGateEvent(GateEvent)  {}
func (r *recorder) OnUpstreamRetry(string) {}

func (r *recorder) OnArrival(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived[pool]++
}

func (r *recorder) OnEnd(o Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[o.TaskID] {
		r.t.Errorf("task %s ended twice", o.TaskID)
	}
	r.ids[o.TaskID] = true
	r.ended = append(r.ended, o)
	if n := r.endedInLocked(o.Pool); n > r.arrived[o.Pool] {
		r.t.Errorf("pool %s: %d tasks ended, %d arrived", o.Pool, n, r.arrived[o.Pool])
	}
}

func (r *recorder) endedInLocked(pool string) int {
	n := 0
	for _, o := range r.ended {
		if o.Pool == pool {
			n++
		}
	}
	return n
}

// all returns what has ended so far.
func (r *recorder) all() []Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Observation(nil), r.ended...)
}

// count returns how many tasks have ended so far.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ended)
}

// balanced tells whether everything that arrived has ended, pool by pool.
func (r *recorder) balanced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pool, n := range r.arrived {
		if r.endedInLocked(pool) != n {
			return false
		}
	}
	return true
}

// outcomes counts what has ended by outcome.
func (r *recorder) outcomes() map[admission.Outcome]int {
	counts := make(map[admission.Outcome]int)
	for _, o := range r.all() {
		counts[o.Outcome]++
	}
	return counts
}

// teeObserver passes everything on to two observers, one after the other.
type teeObserver struct{ first, second Observer }

func (b teeObserver) OnGateEvent(w GateEvent) { b.first.OnGateEvent(w); b.second.OnGateEvent(w) }
func (b teeObserver) OnUpstreamRetry(pool string) {
	b.first.OnUpstreamRetry(pool)
	b.second.OnUpstreamRetry(pool)
}
func (b teeObserver) OnArrival(pool string) { b.first.OnArrival(pool); b.second.OnArrival(pool) }
func (b teeObserver) OnEnd(o Observation)   { b.first.OnEnd(o); b.second.OnEnd(o) }

// hookedPolicy is a policy that does something first, so that a test can act between
// two decisions of the gate. The hooks run under the gate's lock.
type hookedPolicy struct {
	admission.Policy
	onAdmit, onDispatch func()
}

func (h hookedPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	if h.onAdmit != nil {
		h.onAdmit()
	}
	return h.Policy.Admit(v, t)
}

func (h hookedPolicy) Dispatch(v admission.View, t admission.Task) admission.Reason {
	if h.onDispatch != nil {
		h.onDispatch()
	}
	return h.Policy.Dispatch(v, t)
}

// serveRecorded serves a request without a connection, and tells whether the answer
// was broken off.
func (r *testProxy) serveRecorded(req *http.Request) (rec *httptest.ResponseRecorder, aborted bool) {
	r.Helper()
	rec = httptest.NewRecorder()
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			aborted = true
		} else if v != nil {
			panic(v)
		}
	}()
	r.proxy.ServeHTTP(rec, req)
	return rec, false
}

// bufferWriter is a response that goes nowhere.
type bufferWriter struct {
	header http.Header
	body   strings.Builder
}

func newBufferWriter() *bufferWriter { return &bufferWriter{header: make(http.Header)} }

func (c *bufferWriter) Header() http.Header         { return c.header }
func (c *bufferWriter) WriteHeader(int)             {}
func (c *bufferWriter) Write(p []byte) (int, error) { return c.body.Write(p) }
func (c *bufferWriter) Flush()                      {}

func discardSlog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
