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

// liveWays are production's ways upstream where live drills put their faults, if the
// settings allow that at all. While none runs they are one look at a pointer away
// from what they would be without.
type liveWays struct {
	book atomic.Pointer[liveBook] // of the drill that runs; nil: none
	key  []byte                   // of marks

	mu   sync.Mutex
	ways map[string]*fault.Injector // by pool
}

// route puts the ways in, for pools whose transports are still to be made.
func (l *liveWays) route(pools []proxy.Pool) {
	for i := range pools {
		name := pools[i].Name
		pools[i].Around = func(next http.RoundTripper) http.RoundTripper { return l.around(name, next) }
	}
}

func (l *liveWays) around(pool string, next http.RoundTripper) http.RoundTripper {
	faults := fault.New(farEnd(next), uint64(time.Now().UnixNano()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ways == nil {
		l.ways = make(map[string]*fault.Injector)
	}
	l.ways[pool] = faults
	return &liveWay{ways: l, pool: pool, faults: faults, next: next}
}

// injector is where faults of a pool are put.
func (l *liveWays) injector(pool string) (*fault.Injector, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.ways[pool]; i != nil {
		return i, nil
	}
	return nil, errors.New("live drills are not allowed: set allow_live: true in the settings")
}

// liveWay is one pool's.
type liveWay struct {
	ways   *liveWays
	pool   string
	faults *fault.Injector
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *liveWay) RoundTrip(r *http.Request) (*http.Response, error) {
	book := w.ways.book.Load()
	t := taskOf(r.Context())
	if book == nil || t == nil || !book.reached(t, w.pool) {
		return w.faults.RoundTrip(r)
	}
	return book.calls.follow(w.faults, r, t.ID)
}

// CloseIdleConnections lets go of the next one's.
func (w *liveWay) CloseIdleConnections() {
	if c, ok := w.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// door is where tasks come in: it counts them, and lets a live drill look on.
func (l *liveWays) door(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		book := l.book.Load()
		if book == nil || r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		header := r.Header.Get(drillHeader)
		isMarked := header != "" && marked(l.key, header, time.Now())
		if isMarked {
			r = r.WithContext(proxy.Rehearsed(r.Context()))
		}
		book.serve(h, w, r, isMarked)
	})
}

// begin makes a drill look on; there is one at a time.
func (l *liveWays) begin(b *liveBook) error {
	if !l.book.CompareAndSwap(nil, b) {
		return errors.New("another live drill looks on already")
	}
	return nil
}

func (l *liveWays) end(b *liveBook) { l.book.CompareAndSwap(b, nil) }

// touching says which calls a run may befall: those of its pool's tasks that are
// marked, if it is about such, and no more than drill.MaxLiveTasks of them in all.
func touching(mark bool, touched *atomic.Int64) fault.Scope {
	return fault.Scope{Select: func(r *http.Request) bool {
		t := taskOf(r.Context())
		return t != nil && (!mark || t.marked) && touched.Load() < drill.MaxLiveTasks
	}, Most: drill.MaxLiveTasks}
}
