package sandbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// Traffic is production's traffic as drills see it. It counts requests where they come in, beside the proxy's own
// counts, and holds the injectors of live drills on the way upstream. While no live drill runs it costs an atomic read
// for each request.
type Traffic struct {
	// Tag returns a context for a task of a drill, which must not count for the SLO.
	Tag func(context.Context) context.Context

	arrived     atomic.Int64
	inFlight    atomic.Int64 // now
	drillTagged atomic.Int64 // tasks of a twin that came to production

	trace   atomic.Pointer[taskTrace] // of the live drill that runs; nil: none
	markKey atomic.Pointer[[]byte]

	mu        sync.Mutex
	injectors map[string]*fault.Injector // by pool
}

// TrafficCounts are counts of requests at an instant.
type TrafficCounts struct{ Arrived, InFlight, DrillTagged int64 }

// Counts returns the counts of now.
func (l *Traffic) Counts() TrafficCounts {
	return TrafficCounts{InFlight: l.inFlight.Load(), Arrived: l.arrived.Load(), DrillTagged: l.drillTagged.Load()}
}

// Ingress wraps the data plane's handler.
func (l *Traffic) Ingress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.arrived.Add(1)
		l.inFlight.Add(1)
		defer l.inFlight.Add(-1)
		if r.Header[taskHeader] != nil {
			l.drillTagged.Add(1)
		}
		trace := l.trace.Load()
		if trace == nil || r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		marked := l.hasMark(r)
		if marked {
			r = r.WithContext(l.Tag(r.Context()))
		}
		trace.serve(h, w, r, marked)
	})
}

// Transport puts an injector on a pool's way upstream, for pools that live drills may touch.
func (l *Traffic) Transport(pool string, next http.RoundTripper) http.RoundTripper {
	faults := fault.New(traceUpstream(next), uint64(time.Now().UnixNano()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.injectors == nil {
		l.injectors = make(map[string]*fault.Injector)
	}
	l.injectors[pool] = faults
	return &liveTransport{traffic: l, pool: pool, faults: faults, next: next}
}

// injector returns the injector of a pool.
func (l *Traffic) injector(pool string) (*fault.Injector, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.injectors[pool]; i != nil {
		return i, nil
	}
	return nil, errors.New("the upstream of pool " + pool + " has no injector")
}

// liveTransport is that of one pool.
type liveTransport struct {
	traffic *Traffic
	pool    string
	faults  *fault.Injector
	next    http.RoundTripper
}

// RoundTrip makes a call through the injector, and follows it during a live drill of its pool.
func (w *liveTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := w.traffic.trace.Load()
	t := taskFromContext(r.Context())
	if trace == nil || t == nil || !trace.attribute(t, w.pool) {
		return w.faults.RoundTrip(r)
	}
	return trace.calls.follow(w.faults, r, t.ID)
}

// CloseIdleConnections closes those of the next transport.
func (w *liveTransport) CloseIdleConnections() { closeIdle(w.next) }

// attach makes a live drill see the traffic; there is one at a time.
func (l *Traffic) attach(b *taskTrace) error {
	if !l.trace.CompareAndSwap(nil, b) {
		return errors.New("another live drill runs")
	}
	return nil
}

func (l *Traffic) detach(b *taskTrace) { l.trace.CompareAndSwap(b, nil) }

// shareToleranceCalls is how far a share of calls may be off: a share of few calls is never exact.
const shareToleranceCalls = 4

// ScopeViolations counts calls that a live run touched outside its scope: calls of tasks without a mark, or more than
// the share.
func (l *Traffic) ScopeViolations(r drill.Run) drill.Reading {
	b := l.trace.Load()
	if b == nil {
		return drill.Reading{Reason: "no live drill runs"}
	}
	calls := b.calls.snapshot()
	b.mu.Lock()
	defer b.mu.Unlock()
	touched, wrong := 0, 0
	for _, c := range calls {
		if c.Fault == "" {
			continue
		}
		touched++
		if r.Spec.Marked && !b.tasks[c.Task].marked {
			wrong++
		}
	}
	if most := int(r.Spec.Share*float64(len(calls))) + shareToleranceCalls; !r.Spec.Marked {
		wrong = max(0, touched-most)
	}
	return drill.Reading{
		Measured: true, Value: float64(wrong), Samples: len(calls), Source: "production's upstream path",
		Reason: fmt.Sprintf("%d of %d calls were touched, %d of them should not have been", touched, len(calls), wrong),
	}
}

// markHeader marks a task that a live drill may touch: a time in seconds since 1970, a dot, and its signature. The
// proxy forwards no header of headgate's own.
const markHeader = "Headgate-Drill"

// maxMarkAge is how far the time of a mark may be from now, either way.
const maxMarkAge = 5 * time.Minute

// SetMarkToken derives the key of marks from the admin token, so that a mark does not reveal the token.
func (l *Traffic) SetMarkToken(token string) {
	key := hmacSHA256([]byte(token), "headgate drill header")
	l.markKey.Store(&key)
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

// hasMark says whether a request carries a valid mark.
func (l *Traffic) hasMark(r *http.Request) bool {
	key := l.markKey.Load()
	at, signature, ok := strings.Cut(r.Header.Get(markHeader), ".")
	if !ok || key == nil || len(at) > 12 {
		return false
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > maxMarkAge {
		return false
	}
	given, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(given, hmacSHA256(*key, at))
}
