package proxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is the data plane's HTTP handler.
type Proxy struct {
	observer Observer
	log      *slog.Logger
	timeouts Timeouts
	routes   atomic.Pointer[routingTable]

	background context.Context // of requests that no single client waits for; ends with Close
	cancel     context.CancelFunc
	fetches    sync.WaitGroup
}

// New returns a Proxy, or an error about its configuration.
func New(c Config) (*Proxy, error) {
	t, err := newRoutingTable(c, nil)
	if err != nil {
		return nil, err
	}
	p := &Proxy{observer: c.Observer, log: c.Log, timeouts: c.Timeouts.withDefaults()}
	p.background, p.cancel = context.WithCancel(context.Background())
	p.Apply(Routes{t})
	return p, nil
}

// Routes are pools and clients that were checked and not applied yet.
type Routes struct{ table *routingTable }

// Prepare checks pools and clients that are to replace the current ones, and changes nothing. The observer and the log
// stay. Prepare and Apply must not overlap with other calls of theirs.
func (p *Proxy) Prepare(c Config) (Routes, error) {
	c.Observer, c.Log = p.observer, p.log
	t, err := newRoutingTable(c, p.routes.Load())
	return Routes{t}, err
}

// Apply puts the routes that were prepared last in place of the current ones, for later tasks. Current tasks continue
// unchanged, also those of a removed pool.
func (p *Proxy) Apply(r Routes) {
	old := p.routes.Swap(r.table)
	r.table.setLimits()
	if old == nil {
		return
	}
	for _, before := range old.pools {
		if after := r.table.pool(before.Name); after == nil || after.transport != before.transport {
			before.closeIdle()
		}
	}
}

// Close ends requests for lists of models and closes idle upstream connections. Running
// tasks continue.
func (p *Proxy) Close() {
	p.cancel()
	p.fetches.Wait()
	for _, pool := range p.routes.Load().pools {
		pool.closeIdle()
	}
}

func (p *pool) closeIdle() {
	if t, ok := p.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler to abort an
// answer, as net/http requires.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tab := p.routes.Load()
	rc := http.NewResponseController(w)
	deadlines := p.setDeadlines(rc, r)
	path, ok := requestPath(r.URL)
	if !ok {
		p.reject(w, r, tab.notFound(r))
		return
	}
	r = withPath(r, path)
	e := tab.endpoint(r.Method, path)
	switch {
	case e != nil:
	case path == modelsPath:
		p.serveModels(tab, w, r)
		return
	case path == healthPath && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		serveHealth(w)
		return
	default:
		f := tab.notFound(r)
		if allow := tab.allowedMethods(path); allow != "" {
			f = methodNotAllowed(w, allow)
		}
		p.reject(w, r, f)
		return
	}
	t := newTask(p, tab, e, w, r)
	t.rc, t.deadlines = rc, deadlines
	defer t.finish()
	t.respond(t.run())
}

// reject answers a request that is no task with a failure.
func (p *Proxy) reject(w http.ResponseWriter, r *http.Request, f *failure) {
	drainBody(http.NewResponseController(w), r)
	f.write(w, r)
	p.log.Debug("request rejected", "task", w.Header().Get(taskIDHeader), "status", f.status, "code", f.code)
}

// serveHealth answers a probe: the process serves. It says nothing about the upstreams.
func serveHealth(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok\n") // the prober may have left
}

// setDeadlines sets the connection's deadlines for this request: those of an
// earlier one may have passed, and net/http itself waits for ever for a body that
// the handler has not read.
func (p *Proxy) setDeadlines(rc *http.ResponseController, r *http.Request) connDeadlines {
	now := time.Now()
	d := connDeadlines{write: now.Add(p.timeouts.ClientWrite)}
	_ = rc.SetWriteDeadline(d.write)
	if r.Body != http.NoBody {
		d.read = now.Add(p.timeouts.BodyRead)
		_ = rc.SetReadDeadline(d.read)
	}
	return d
}

// connDeadlines are the current deadlines of a connection.
type connDeadlines struct{ read, write time.Time }

// A deadline is only extended once this much of it, or a tenth of the whole, has
// passed: extending one costs about as much as a small read.
const deadlineSlack = 5 * time.Second

// needsExtension reports whether a deadline must be extended to the whole limit.
func needsExtension(deadline, now time.Time, limit time.Duration) bool {
	return deadline.Sub(now) < limit-min(deadlineSlack, limit/10)
}
