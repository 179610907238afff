package proxy

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// waitTimeout is how long a condition may take to come true on the wall clock.
const waitTimeout = 20 * time.Second

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
		IdleTimeout: 120 * time.Second, BodyLimit: 4 << 20, BufferLimit: 64 << 20,
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
		if pool.Transport == nil {
			transport := newTransport(*pool)
			if _, real := r.network.(*loopback); !real {
				transport.DialContext = r.network.dial
			}
			pool.Transport = transport
		}
	}
	p.config.Observer = teeObserver{r.recorder, r.metrics}
	p.config.Log = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.proxy = must(New(p.config))
	server := &http.Server{Handler: r.proxy, ErrorLog: discardLog(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	if p.base != nil {
		server.BaseContext = func(netListener) context.Context { return p.base() }
	}
	r.server = serve(r, r.network, server)
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
