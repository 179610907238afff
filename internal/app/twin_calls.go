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

// callTrace follows the calls that a gate makes upstream, on both sides of the
// faults. It is safe for concurrent use.
type callTrace struct {
	clock   *scenarioClock
	next    http.RoundTripper // through the faults
	onFault func(task int)    // told of each fault that befalls a call; nil: nobody

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
func (b *callTrace) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.follow(b.next, r, headerIndex(r.Header, taskHeader))
}

// follow makes a call for a task, and sees what becomes of it.
func (b *callTrace) follow(next http.RoundTripper, r *http.Request, task int) (*http.Response, error) {
	e, number := b.add(task, time.Now())
	ctx := fault.WithHitFunc(r.Context(), func(k fault.Kind) { b.recordFault(e, k) })
	r = r.Clone(context.WithValue(ctx, tracedCallKey{}, tracedCall{b, e}))
	if next == b.next {
		r.Header.Set(callHeader, strconv.Itoa(number))
	}
	res, err := next.RoundTrip(r)
	if err != nil {
		b.update(e, func(e *callEntry) { e.ended, e.Open = time.Now(), false })
		return nil, err
	}
	b.update(e, func(e *callEntry) { e.Status = res.StatusCode })
	res.Body = &firstByteBody{res.Body, func() { b.update(e, func(e *callEntry) { e.first = time.Now() }) }}
	res.Body = countBody(res.Body, func(n int64, sum uint64, whole bool) {
		b.update(e, func(e *callEntry) {
			e.ended, e.Open, e.Bytes, e.Checksum, e.CleanEOF = time.Now(), false, n, sum, whole
		})
	})
	return res, nil
}

type tracedCallKey struct{}

// tracedCall is a call on its way, for whoever sees it at the far end.
type tracedCall struct {
	book  *callTrace
	entry *callEntry
}

// traceUpstream sees calls that have come through the faults, where the endpoint itself
// cannot be asked.
func traceUpstream(next http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		c, ok := r.Context().Value(tracedCallKey{}).(tracedCall)
		if !ok {
			return next.RoundTrip(r)
		}
		c.book.update(c.entry, func(e *callEntry) { e.Reached, e.Working, e.arrived = true, true, time.Now() })
		left := func(whole bool) {
			c.book.update(c.entry, func(e *callEntry) { e.Working, e.Complete, e.left = false, whole, time.Now() })
		}
		res, err := next.RoundTrip(r)
		if err != nil {
			left(false)
			return nil, err
		}
		res.Body = countBody(res.Body, func(_ int64, _ uint64, whole bool) { left(whole) })
		return res, nil
	})
}

func (b *callTrace) recordFault(e *callEntry, k fault.Kind) {
	b.update(e, func(e *callEntry) { e.Fault = k })
	if b.onFault != nil {
		b.onFault(e.Task)
	}
}

// CloseIdleConnections lets go of the next one's.
func (b *callTrace) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// add enters a call.
func (b *callTrace) add(task int, now time.Time) (e *callEntry, number int) {
	e = &callEntry{began: now}
	e.Open, e.Task = true, task
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, e)
	return e, len(b.calls) - 1
}

// headerIndex reads a header of ours; noTask if it is not there, or not right.
func headerIndex(h http.Header, name string) int {
	n, err := strconv.Atoi(h.Get(name))
	if err != nil || n < 0 {
		return noTask
	}
	return n
}

func (b *callTrace) update(e *callEntry, f func(*callEntry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(e)
}

// arrive finds a call at the endpoint. One that came there by another way is
// entered all the same.
func (b *callTrace) arrive(h http.Header) *callEntry {
	n := headerIndex(h, callHeader)
	now := time.Now()
	b.mu.Lock()
	known := n >= 0 && n < len(b.calls) && b.calls[n].arrived.IsZero()
	b.mu.Unlock()
	if !known {
		_, n = b.add(headerIndex(h, taskHeader), now)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.calls[n]
	e.Reached, e.Working, e.arrived = true, true, now
	return e
}

// wrapEndpoint follows what the endpoint does with the calls, and gives it its slots.
func (b *callTrace) wrapEndpoint(stub http.Handler, s *endpointSlots) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := b.arrive(r.Header)
		whole := false
		defer func() {
			b.update(e, func(e *callEntry) { e.Working, e.left, e.Complete = false, time.Now(), whole })
		}()
		if !s.acquire(r.Context()) {
			panic(http.ErrAbortHandler)
		}
		defer s.release()
		b.update(e, func(e *callEntry) { e.SlotWait = time.Duration(float64(time.Since(e.arrived)) * b.clock.speed) })
		stub.ServeHTTP(w, r)
		whole = r.Context().Err() == nil
	})
}

// snapshot returns all calls so far, by their beginning.
func (b *callTrace) snapshot() []drill.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]drill.Call, 0, len(b.calls))
	for _, e := range b.calls {
		c := e.Call
		c.Started, c.Ended = b.clock.at(e.began), b.clock.at(e.ended)
		c.FirstByte = b.clock.at(e.first)
		c.Arrived, c.Finished = b.clock.at(e.arrived), b.clock.at(e.left)
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(x, y drill.Call) int { return int(x.Started - y.Started) })
	return all
}
