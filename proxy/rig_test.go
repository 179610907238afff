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

// patience is how long a condition may take to come true on the wall clock.
const patience = 20 * time.Second

// plan is what a rig is built from; newRig fills in what a test leaves alone.
type plan struct {
	network  network
	upstream http.Handler     // instead of a stub
	stub     modelstub.Config // of the stub
	gate     admission.Config
	pool     Pool
	config   Config
	base     func() context.Context // of the data plane's requests
	more     func(*rig) []Pool      // further pools, once there is a network
}

// rig is a whole data plane: client, proxy, gate, upstream, all in one process.
// When its test is over it checks that nothing is held any more and that every
// task was observed once.
type rig struct {
	testing.TB
	network  network
	stub     *modelstub.Stub
	upstream *site
	data     *site
	gate     *admission.Gate
	proxy    *Proxy
	seen     *recorder
	metrics  *Metrics
	registry *prometheus.Registry
	logs     *logBuffer
	client   *http.Client
	sick     bool // the test has given the gate a fault: refusals may be false
}

func newRig(t testing.TB, edit func(*plan)) *rig {
	t.Helper()
	p := plan{network: new(loopback), gate: admission.Config{
		Workers: 4, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2},
		QueueLimit: 10000, AssumedService: 15 * time.Second, Watcher: invariant.New(),
	}, pool: Pool{
		Name: "main", Models: []string{"*"}, SLO: 60 * time.Second, ConnectTimeout: 5 * time.Second,
		IdleTimeout: 120 * time.Second, BodyLimit: 4 << 20, BufferLimit: 64 << 20,
	}}
	if edit != nil {
		edit(&p)
	}
	r := &rig{TB: t, network: p.network, seen: newRecorder(t), logs: new(logBuffer), registry: prometheus.NewRegistry()}
	r.startUpstream(p)
	r.startProxy(p)
	r.client = &http.Client{Transport: &http.Transport{
		DialContext: r.network.dial, DisableCompression: true, MaxIdleConnsPerHost: 1000,
	}}
	t.Cleanup(r.close)
	return r
}

func (r *rig) startUpstream(p plan) {
	if p.upstream == nil {
		r.stub = must(modelstub.New(p.stub))
		p.upstream = r.stub
	}
	r.upstream = serve(r, r.network, &http.Server{Handler: p.upstream, ErrorLog: quiet()})
}

func (r *rig) startProxy(p plan) {
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
	p.config.Observer = both{r.seen, r.metrics}
	p.config.Log = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.proxy = must(New(p.config))
	server := &http.Server{Handler: r.proxy, ErrorLog: quiet(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	if p.base != nil {
		server.BaseContext = func(netListener) context.Context { return p.base() }
	}
	r.data = serve(r, r.network, server)
}

// close checks the books, then takes everything down.
func (r *rig) close() {
	r.settle()
	r.client.CloseIdleConnections()
	r.data.close()
	r.proxy.Close()
	if r.stub != nil {
		r.stub.Close()
	}
	r.upstream.close()
}

// settle waits until nothing is going on, and checks that the books agree.
func (r *rig) settle() {
	r.Helper()
	r.eventually("every arrival has ended", r.seen.balanced)
	r.eventually("nothing is held", func() bool { return r.held() == (holdings{}) })
	arrivals, outcomes := r.counted()
	if n := len(r.seen.all()); arrivals != n || outcomes != n {
		r.Errorf("metrics count %d arrivals and %d outcomes of %d tasks", arrivals, outcomes, n)
	}
	if n := r.sum("headgate_false_refusals_total"); n != 0 && !r.sick {
		r.Errorf("%v false refusals\n%s", n, r.logs)
	}
}

// holdings is what tasks hold at one moment, over all pools.
type holdings struct {
	inFlight, depth int
	buffered        int64
}

func (r *rig) held() holdings {
	tab := r.proxy.table.Load()
	h := holdings{buffered: tab.buffer.used.Load()}
	for _, p := range tab.pools {
		s := p.Gate.Snapshot(time.Now())
		h.inFlight += s.InFlight
		h.depth += s.Depth
		h.buffered += p.buffered.used.Load()
	}
	return h
}

// eventually waits for a condition.
func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	limit, pause := patience, time.Millisecond
	if _, real := r.network.(*loopback); !real {
		limit, pause = time.Hour, 10*time.Millisecond
	}
	for end := time.Now().Add(limit); !ok(); time.Sleep(pause) {
		if time.Now().After(end) {
			r.Fatalf("after %s still not so: %s; held %+v, outcomes %v\n%s", limit, what, r.held(), r.seen.outcomes(), r.logs)
		}
	}
}

// task waits until n tasks have ended and returns the last of them.
func (r *rig) task(n int) Observation {
	r.Helper()
	r.eventually("the task has ended", func() bool { return len(r.seen.all()) >= n })
	all := r.seen.all()
	if len(all) != n {
		r.Fatalf("%d tasks ended, want %d: %+v", len(all), n, all)
	}
	return all[n-1]
}

// want checks the one task's outcome and the status it was answered with.
func (r *rig) want(o admission.Outcome, status int) Observation {
	r.Helper()
	seen := r.task(1)
	if seen.Outcome != o || seen.Status != status {
		r.Errorf("outcome %s with status %d (%v), want %s with %d", seen.Outcome, seen.Status, seen.Err, o, status)
	}
	return seen
}

// bubble runs a test on a clock of its own, over a network in memory.
func bubble(t *testing.T, edit func(*plan), test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(newRig(t, func(p *plan) {
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
