package app

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// Headers that a twin's tasks and calls bear. The gate passes them on as it does all that are
// not its own.
const (
	taskHeader = "Drill-Task" // index of the arrival
	callHeader = "Drill-Call" // number of the call; it is between our two ends of the way upstream
)

// noTask is the task of a call that bears none.
const noTask = -1

// callBook follows the calls that a gate makes upstream, on both sides of the
// faults. It is safe for concurrent use.
type callBook struct {
	clock  *playClock
	next   http.RoundTripper // through the faults
	befell func(task int)    // told of each fault that befalls a call; nil: nobody

	mu    sync.Mutex
	calls []*callEntry
}

// callEntry is a drill.Call with times of the wall clock.
type callEntry struct {
	drill.Call
	began, ended  time.Time
	first         time.Time
	arrived, left time.Time
}

// RoundTrip implements http.RoundTripper on the gate's side, for calls that bear the
// number of their task.
func (b *callBook) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.follow(b.next, r, numbered(r.Header, taskHeader))
}

// follow makes a call for a task, and sees what becomes of it.
func (b *callBook) follow(next http.RoundTripper, r *http.Request, task int) (*http.Response, error) {
	e, number := b.begin(task, time.Now())
	ctx := fault.Watch(r.Context(), func(k fault.Kind) { b.struck(e, k) })
	r = r.Clone(context.WithValue(ctx, entryKey{}, entered{b, e}))
	if next == b.next {
		r.Header.Set(callHeader, strconv.Itoa(number))
	}
	res, err := next.RoundTrip(r)
	if err != nil {
		b.change(e, func(e *callEntry) { e.ended, e.Open = time.Now(), false })
		return nil, err
	}
	b.change(e, func(e *callEntry) { e.Status = res.StatusCode })
	res.Body = &opening{res.Body, func() { b.change(e, func(e *callEntry) { e.first = time.Now() }) }}
	res.Body = count(res.Body, func(n int64, sum uint64, whole bool) {
		b.change(e, func(e *callEntry) { e.ended, e.Open, e.Bytes, e.Sum, e.Clean = time.Now(), false, n, sum, whole })
	})
	return res, nil
}

type entryKey struct{}

// entered is a call on its way, for whoever sees it at the far end.
type entered struct {
	book  *callBook
	entry *callEntry
}

// farEnd sees calls that have come through the faults, where the endpoint itself
// cannot be asked.
func farEnd(next http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		c, ok := r.Context().Value(entryKey{}).(entered)
		if !ok {
			return next.RoundTrip(r)
		}
		c.book.change(c.entry, func(e *callEntry) { e.Reached, e.Working, e.arrived = true, true, time.Now() })
		left := func(whole bool) {
			c.book.change(c.entry, func(e *callEntry) { e.Working, e.Whole, e.left = false, whole, time.Now() })
		}
		res, err := next.RoundTrip(r)
		if err != nil {
			left(false)
			return nil, err
		}
		res.Body = count(res.Body, func(_ int64, _ uint64, whole bool) { left(whole) })
		return res, nil
	})
}

func (b *callBook) struck(e *callEntry, k fault.Kind) {
	b.change(e, func(e *callEntry) { e.Fault = k })
	if b.befell != nil {
		b.befell(e.Task)
	}
}

// CloseIdleConnections lets go of the next one's.
func (b *callBook) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// begin enters a call.
func (b *callBook) begin(task int, now time.Time) (e *callEntry, number int) {
	e = &callEntry{began: now}
	e.Open, e.Task = true, task
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, e)
	return e, len(b.calls) - 1
}

// numbered reads a header of ours; noTask if it is not there, or not right.
func numbered(h http.Header, name string) int {
	n, err := strconv.Atoi(h.Get(name))
	if err != nil || n < 0 {
		return noTask
	}
	return n
}

func (b *callBook) change(e *callEntry, f func(*callEntry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(e)
}

// reached finds a call at the endpoint. One that came there by another way is
// entered all the same.
func (b *callBook) reached(h http.Header) *callEntry {
	n := numbered(h, callHeader)
	now := time.Now()
	b.mu.Lock()
	known := n >= 0 && n < len(b.calls) && b.calls[n].arrived.IsZero()
	b.mu.Unlock()
	if !known {
		_, n = b.begin(numbered(h, taskHeader), now)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.calls[n]
	e.Reached, e.Working, e.arrived = true, true, now
	return e
}

// endpoint follows what the endpoint does with the calls, and gives it its slots.
func (b *callBook) endpoint(stub http.Handler, s *slots) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := b.reached(r.Header)
		whole := false
		defer func() {
			b.change(e, func(e *callEntry) { e.Working, e.left, e.Whole = false, time.Now(), whole })
		}()
		if !s.take(r.Context()) {
			panic(http.ErrAbortHandler)
		}
		defer s.give()
		b.change(e, func(e *callEntry) { e.Waited = time.Duration(float64(time.Since(e.arrived)) * b.clock.speed) })
		stub.ServeHTTP(w, r)
		whole = r.Context().Err() == nil
	})
}

// seen returns all calls so far, by their beginning.
func (b *callBook) seen() []drill.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]drill.Call, 0, len(b.calls))
	for _, e := range b.calls {
		c := e.Call
		c.Began, c.Ended = b.clock.at(e.began), b.clock.at(e.ended)
		c.First = b.clock.at(e.first)
		c.Arrived, c.Left = b.clock.at(e.arrived), b.clock.at(e.left)
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(x, y drill.Call) int { return int(x.Began - y.Began) })
	return all
}
