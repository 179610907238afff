package sandbox

import (
	"context"
	"hash"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// Headers of a twin's tasks and calls. The gate forwards headers that are not its own.
const (
	taskHeader = "Drill-Task" // index of the arrival
	callHeader = "Drill-Call" // number of the call, from the gate's side of the faults to the endpoint
)

// noTask is the task of a call without the header.
const noTask = -1

// scenarioClock converts instants of the wall clock to scenario time.
type scenarioClock struct {
	speed float64
	zero  atomic.Pointer[time.Time] // nil before the load begins
}

// at is the scenario time of an instant; 0 before the load begins.
func (c *scenarioClock) at(t time.Time) time.Duration {
	zero := c.zero.Load()
	if zero == nil || t.IsZero() {
		return 0
	}
	return time.Duration(float64(t.Sub(*zero)) * c.speed)
}

// wall is how long a span of scenario time takes.
func (c *scenarioClock) wall(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.speed)
}

// callTrace follows the calls that a gate makes upstream, on both sides of the faults. It is safe for concurrent use.
type callTrace struct {
	clock    *scenarioClock
	next     http.RoundTripper // through the faults
	tagCalls bool              // calls carry callHeader to the endpoint
	onFault  func(task int)    // called for each call that a fault hits; may be nil

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

// RoundTrip makes a call of a task that carries taskHeader.
func (b *callTrace) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.follow(b.next, r, headerIndex(r.Header, taskHeader))
}

// CloseIdleConnections closes those of the next transport.
func (b *callTrace) CloseIdleConnections() { closeIdle(b.next) }

func closeIdle(t http.RoundTripper) {
	if c, ok := t.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// follow makes a call for a task and records how it ends.
func (b *callTrace) follow(next http.RoundTripper, r *http.Request, task int) (*http.Response, error) {
	e, number := b.add(task, time.Now())
	ctx := fault.WithHitFunc(r.Context(), func(k fault.Kind) { b.recordFault(e, k) })
	r = r.Clone(withTracedCall(ctx, b, e))
	if b.tagCalls {
		r.Header.Set(callHeader, strconv.Itoa(number))
	}
	res, err := next.RoundTrip(r)
	if err != nil {
		b.update(e, func(e *callEntry) { e.ended, e.Open = time.Now(), false })
		return nil, err
	}
	b.update(e, func(e *callEntry) { e.Status = res.StatusCode })
	body := countBody(res.Body, func(n int64, sum uint64, complete bool) {
		b.update(e, func(e *callEntry) {
			e.ended, e.Open, e.Bytes, e.Checksum, e.CleanEOF = time.Now(), false, n, sum, complete
		})
	})
	body.onFirstByte = func() { b.update(e, func(e *callEntry) { e.first = time.Now() }) }
	res.Body = body
	return res, nil
}

type tracedCallKey struct{}

// tracedCall is a call in progress.
type tracedCall struct {
	trace *callTrace
	entry *callEntry
}

func withTracedCall(ctx context.Context, b *callTrace, e *callEntry) context.Context {
	return context.WithValue(ctx, tracedCallKey{}, tracedCall{b, e})
}

// finished records that the endpoint is done with a call.
func (c tracedCall) finished(complete bool) {
	c.trace.update(c.entry, func(e *callEntry) { e.Working, e.left, e.Complete = false, time.Now(), complete })
}

// traceUpstream sees calls that have come through the faults, where the endpoint itself cannot be observed.
func traceUpstream(next http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		c, ok := r.Context().Value(tracedCallKey{}).(tracedCall)
		if !ok {
			return next.RoundTrip(r)
		}
		c.trace.update(c.entry, func(e *callEntry) { e.Reached, e.Working, e.arrived = true, true, time.Now() })
		res, err := next.RoundTrip(r)
		if err != nil {
			c.finished(false)
			return nil, err
		}
		res.Body = countBody(res.Body, func(_ int64, _ uint64, complete bool) { c.finished(complete) })
		return res, nil
	})
}

// wrapEndpoint records what the endpoint does with calls.
func (b *callTrace) wrapEndpoint(stub http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := tracedCall{b, b.arrive(r.Header)}
		complete := false
		defer func() { c.finished(complete) }()
		stub.ServeHTTP(w, r.WithContext(withTracedCall(r.Context(), b, c.entry)))
		complete = r.Context().Err() == nil
	})
}

// arrive finds the entry of a call at the endpoint. A call without a valid number gets an entry too.
func (b *callTrace) arrive(h http.Header) *callEntry {
	n := headerIndex(h, callHeader)
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	var e *callEntry
	if n >= 0 && n < len(b.calls) && b.calls[n].arrived.IsZero() {
		e = b.calls[n]
	} else {
		e, _ = b.addLocked(headerIndex(h, taskHeader), now)
	}
	e.Reached, e.Working, e.arrived = true, true, now
	return e
}

// recordSlot records that a call has got its slot of the endpoint.
func (b *callTrace) recordSlot(r *http.Request) {
	if c, ok := r.Context().Value(tracedCallKey{}).(tracedCall); ok {
		b.update(c.entry, func(e *callEntry) { e.SlotWait = time.Duration(float64(time.Since(e.arrived)) * b.clock.speed) })
	}
}

func (b *callTrace) recordFault(e *callEntry, k fault.Kind) {
	b.update(e, func(e *callEntry) { e.Fault = k })
	if b.onFault != nil {
		b.onFault(e.Task)
	}
}

// add enters a call.
func (b *callTrace) add(task int, now time.Time) (e *callEntry, number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addLocked(task, now)
}

func (b *callTrace) addLocked(task int, now time.Time) (e *callEntry, number int) {
	e = &callEntry{Call: drill.Call{Open: true, Task: task}, began: now}
	b.calls = append(b.calls, e)
	return e, len(b.calls) - 1
}

func (b *callTrace) update(e *callEntry, f func(*callEntry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(e)
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

// headerIndex reads a header of ours; noTask if it is missing or invalid.
func headerIndex(h http.Header, name string) int {
	n, err := strconv.Atoi(h.Get(name))
	if err != nil || n < 0 {
		return noTask
	}
	return n
}

// countedBody counts and sums a body while it is read, and reports once, at its end or when it is closed before.
type countedBody struct {
	io.ReadCloser
	sum         hash.Hash64
	n           int64
	once        sync.Once
	onFirstByte func() // may be nil
	onEnd       func(n int64, sum uint64, complete bool)
}

func countBody(body io.ReadCloser, onEnd func(n int64, sum uint64, complete bool)) *countedBody {
	return &countedBody{ReadCloser: body, sum: fnv.New64a(), onEnd: onEnd}
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if n > 0 && c.n == 0 && c.onFirstByte != nil {
		c.onFirstByte()
	}
	_, _ = c.sum.Write(p[:n]) // never fails
	c.n += int64(n)
	if err != nil {
		c.finish(err == io.EOF)
	}
	return n, err
}

func (c *countedBody) Close() error {
	c.finish(false)
	return c.ReadCloser.Close()
}

func (c *countedBody) finish(complete bool) {
	c.once.Do(func() { c.onEnd(c.n, c.sum.Sum64(), complete) })
}

// roundTripperFunc is a round tripper made of a function.
type roundTripperFunc func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (t roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
