package app

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"headgate/proxy"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// liveTransports are production's ways upstream where live drills put their faults, if the
// settings allow that at all. While none runs they are one look at a pointer away
// from what they would be without.
type liveTransports struct {
	trace atomic.Pointer[taskTrace] // of the drill that runs; nil: none
	key   []byte                    // of marks

	mu        sync.Mutex
	injectors map[string]*fault.Injector // by pool
}

// wrapPools puts the ways in, for pools whose transports are still to be made.
func (l *liveTransports) wrapPools(pools []proxy.Pool) {
	for i := range pools {
		name := pools[i].Name
		pools[i].WrapTransport = func(next http.RoundTripper) http.RoundTripper { return l.wrapTransport(name, next) }
	}
}

func (l *liveTransports) wrapTransport(pool string, next http.RoundTripper) http.RoundTripper {
	faults := fault.New(traceUpstream(next), uint64(time.Now().UnixNano()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.injectors == nil {
		l.injectors = make(map[string]*fault.Injector)
	}
	l.injectors[pool] = faults
	return &liveTransport{parent: l, pool: pool, faults: faults, next: next}
}

// injector is where faults of a pool are put.
func (l *liveTransports) injector(pool string) (*fault.Injector, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.injectors[pool]; i != nil {
		return i, nil
	}
	return nil, errors.New("live drills are not allowed: set allow_live: true in the settings")
}

// liveTransport is one pool's.
type liveTransport struct {
	parent *liveTransports
	pool   string
	faults *fault.Injector
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *liveTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	book := w.parent.trace.Load()
	t := taskFromContext(r.Context())
	if book == nil || t == nil || !book.attribute(t, w.pool) {
		return w.faults.RoundTrip(r)
	}
	return book.calls.follow(w.faults, r, t.ID)
}

// CloseIdleConnections lets go of the next one's.
func (w *liveTransport) CloseIdleConnections() {
	if c, ok := w.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// wrapIngress is where tasks come in: it counts them, and lets a live drill look on.
func (l *liveTransports) wrapIngress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		book := l.trace.Load()
		if book == nil || r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		header := r.Header.Get(drillHeader)
		isMarked := header != "" && validMark(l.key, header, time.Now())
		if isMarked {
			r = r.WithContext(proxy.WithDrillTraffic(r.Context()))
		}
		book.serve(h, w, r, isMarked)
	})
}

// attach makes a drill look on; there is one at a time.
func (l *liveTransports) attach(b *taskTrace) error {
	if !l.trace.CompareAndSwap(nil, b) {
		return errors.New("another live drill looks on already")
	}
	return nil
}

func (l *liveTransports) detach(b *taskTrace) { l.trace.CompareAndSwap(b, nil) }

// liveScope says which calls a run may befall: those of its pool's tasks that are
// marked, if it is about such, and no more than drill.MaxLiveTasks of them in all.
func liveScope(mark bool, touched *atomic.Int64) fault.Scope {
	return fault.Scope{Match: func(r *http.Request) bool {
		t := taskFromContext(r.Context())
		return t != nil && (!mark || t.marked) && touched.Load() < drill.MaxLiveTasks
	}, MaxHits: drill.MaxLiveTasks}
}
