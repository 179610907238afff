package proxy

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Proxy is the data plane's HTTP handler.
type Proxy struct {
	observer Observer
	log      *slog.Logger
	timeouts Timeouts
	routes   atomic.Pointer[routingTable]
}

// New returns a Proxy, or says what is wrong with its configuration.
func New(c Config) (*Proxy, error) {
	t, err := validatedTable(c, nil)
	if err != nil {
		return nil, err
	}
	p := &Proxy{observer: c.Observer, log: c.Log, timeouts: c.Timeouts.withDefaults()}
	p.routes.Store(t)
	return p, nil
}

func validatedTable(c Config, old *routingTable) (*routingTable, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return newRoutingTable(c, old)
}

// Reload changes pools and clients for the tasks that come from now on. Tasks
// that are here go on as they began, those of a pool that is gone too. Observer,
// log and timeouts stay. When it fails, nothing has changed. Calls must not
// overlap.
func (p *Proxy) Reload(c Config) error {
	c.Observer, c.Log = p.observer, p.log
	old := p.routes.Load()
	t, err := validatedTable(c, old)
	if err != nil {
		return err
	}
	p.routes.Store(t)
	for _, was := range old.pools {
		if now := t.pool(was.Name); now == nil || now.transport != was.transport {
			was.closeIdle()
		}
	}
	return nil
}

// Close lets go of idle upstream connections. Tasks that run go on.
func (p *Proxy) Close() {
	for _, pool := range p.routes.Load().pools {
		pool.closeIdle()
	}
}

func (p *pool) closeIdle() {
	if t, ok := p.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler to break
// an answer off, as net/http wants it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tab := p.routes.Load()
	rc := http.NewResponseController(w)
	by := p.setDeadlines(rc, r)
	if r.URL.Path == modelsPath && r.URL.EscapedPath() == modelsPath {
		p.serveModels(tab, w, r)
		return
	}
	proto, ok := tab.endpoint(r)
	if !ok {
		drainBody(rc, r)
		notFound(r).write(w)
		return
	}
	if r.Method != http.MethodPost {
		drainBody(rc, r)
		methodNotAllowed(w, http.MethodPost).write(w)
		return
	}
	t := newTask(p, tab, proto, w, r)
	t.rc, t.deadlines = rc, by
	defer t.finish()
	t.respond(t.run())
}

// setDeadlines gives the connection deadlines for this request: those that an earlier
// one has left may have passed, and net/http itself waits for ever for a body
// that nobody has read.
func (p *Proxy) setDeadlines(rc *http.ResponseController, r *http.Request) connDeadlines {
	now := time.Now()
	by := connDeadlines{write: now.Add(p.timeouts.ClientWrite)}
	_ = rc.SetWriteDeadline(by.write)
	if r.Body != http.NoBody {
		by.read = now.Add(p.timeouts.BodyRead)
		_ = rc.SetReadDeadline(by.read)
	}
	return by
}

// connDeadlines are those that a connection has.
type connDeadlines struct{ read, write time.Time }

// A deadline is only moved when it has come this much nearer, or a tenth of the
// whole: moving one costs about as much as a small read.
const deadlineSlack = 5 * time.Second

// needsExtension tells whether a deadline must be moved to give the whole limit again.
func needsExtension(by, now time.Time, limit time.Duration) bool {
	return by.Sub(now) < limit-min(deadlineSlack, limit/10)
}
