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
	table    atomic.Pointer[table]
}

// New returns a Proxy, or says what is wrong with its configuration.
func New(c Config) (*Proxy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	t, err := newTable(c)
	if err != nil {
		return nil, err
	}
	p := &Proxy{observer: c.Observer, log: c.Log, timeouts: c.Timeouts.withDefaults()}
	p.table.Store(t)
	return p, nil
}

// Drain turns away everybody who waits for a permit and everybody who comes
// from now on. Tasks that run go on.
func (p *Proxy) Drain(now time.Time) {
	for _, pool := range p.table.Load().pools {
		pool.Gate.Drain(now)
	}
}

// Close lets go of idle upstream connections. Tasks that run go on.
func (p *Proxy) Close() {
	for _, pool := range p.table.Load().pools {
		if t, ok := pool.transport.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
	}
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler to break
// an answer off, as net/http wants it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tab := p.table.Load()
	if r.URL.Path == modelsPath && r.URL.EscapedPath() == modelsPath {
		p.serveModels(tab, w, r)
		return
	}
	proto, ok := tab.endpoint(r)
	if !ok {
		notFound(r).write(w)
		return
	}
	if r.Method != http.MethodPost {
		wrongMethod(w, http.MethodPost).write(w)
		return
	}
	t := newTask(p, tab, proto, w, r)
	defer t.finish()
	t.answer(t.run())
}
