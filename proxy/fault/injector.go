package fault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxTTL bounds a lease: the injecting process must renew it to show that it is alive.
const MaxTTL = time.Minute

// maxLeases bounds the faults that are active at one time.
const maxLeases = 64

// Errors of an injection.
var (
	ErrShareExceeded = errors.New("the shares of the active faults would exceed 1")
	ErrLeaseExpired  = errors.New("lease expired")
)

// Injector is a round tripper that applies faults to some of the calls through it.
// While no fault is active, calls go straight to the next round tripper. It is safe
// for concurrent use.
type Injector struct {
	next     http.RoundTripper
	active   atomic.Pointer[[]*Lease] // those with a share above 0; nil: none yet
	draws    atomic.Uint64
	phase    float64
	eligible atomic.Int64
	hits     map[Kind]*atomic.Int64

	mu     sync.Mutex
	leases []*Lease // active ones, and those that still stall a call
}

// New puts an Injector in front of next. The seed determines which calls are
// selected; the faults' shares determine how many.
func New(next http.RoundTripper, seed uint64) *Injector {
	_, phase := math.Modf(float64(seed%1000) * math.Sqrt2)
	i := &Injector{next: next, phase: phase, hits: make(map[Kind]*atomic.Int64)}
	for _, k := range Kinds() {
		i.hits[k] = new(atomic.Int64)
	}
	return i
}

// Scope bounds the calls of a fault. The zero value allows every call.
type Scope struct {
	// Match reports whether a call is eligible; the share is of the eligible calls. It
	// must be fast, and safe for concurrent use. Nil: every call.
	Match   func(*http.Request) bool
	MaxHits int // most calls that the fault hits; 0: no bound
}

// Inject activates a fault for ttl, or until the lease is renewed or cleared. A
// fault with a share of 0 has a lease like any other and affects no call.
func (i *Injector) Inject(f Fault, s Scope, ttl time.Duration) (*Lease, error) {
	err := f.Validate()
	if err == nil && s.MaxHits < 0 {
		err = fmt.Errorf("max hits: %d, want 0 or more", s.MaxHits)
	}
	if err == nil {
		err = checkTTL(ttl)
	}
	if err != nil {
		return nil, fmt.Errorf("inject %s: %w", f.Kind, err)
	}
	l := &Lease{injector: i, fault: f, scope: s, expiresAt: time.Now().Add(ttl), done: make(chan struct{})}
	l.idle.L = &l.mu
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweepLocked()
	if err := i.checkCapacityLocked(f.Share); err != nil {
		return nil, fmt.Errorf("inject %s: %w", f.Kind, err)
	}
	i.leases = append(i.leases, l)
	i.publishLocked()
	return l, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl <= 0 || ttl > MaxTTL {
		return fmt.Errorf("ttl: %v, want above 0s and at most %v", ttl, MaxTTL)
	}
	return nil
}

func (i *Injector) checkCapacityLocked(share float64) error {
	if len(i.leases) >= maxLeases {
		return fmt.Errorf("too many active faults: %d", maxLeases)
	}
	now := time.Now()
	for _, l := range i.leases {
		if l.active(now) {
			share += l.fault.Share
		}
	}
	if share > 1+1e-9 { // thirds do not add up exactly
		return ErrShareExceeded
	}
	return nil
}

// sweepLocked forgets leases that have ended and stall no call.
func (i *Injector) sweepLocked() {
	now := time.Now()
	i.leases = slices.DeleteFunc(i.leases, func(l *Lease) bool {
		stalled, active := l.status(now)
		return !active && stalled == 0
	})
}

// publishLocked shows the active faults to calls, without those of share 0.
func (i *Injector) publishLocked() {
	i.sweepLocked()
	now := time.Now()
	var active []*Lease
	for _, l := range i.leases {
		if l.fault.Share > 0 && l.active(now) {
			active = append(active, l)
		}
	}
	i.active.Store(&active)
}

// Clear removes all faults. Stalled calls are released at once: they go upstream,
// and the rest of a slow answer comes as fast as it can. From then on no call is
// hit, not even one that was selected before. Clear waits until no call is stalled;
// an error means that ctx ended first.
func (i *Injector) Clear(ctx context.Context) (Report, error) {
	i.mu.Lock()
	all := slices.Clone(i.leases)
	i.mu.Unlock()
	return i.clear(ctx, all)
}

func (i *Injector) clear(ctx context.Context, all []*Lease) (Report, error) {
	started := time.Now()
	released := 0
	for _, l := range all {
		released += l.end()
	}
	i.mu.Lock()
	i.publishLocked()
	i.mu.Unlock()
	var err error
	for _, l := range all {
		err = errors.Join(err, l.waitIdle(ctx))
	}
	r := i.Report()
	r.ClearTime, r.Released = time.Since(started), released
	return r, err
}

// Report is the activity of an Injector so far.
type Report struct {
	Eligible  int           // calls that an active fault could have hit
	Hits      map[Kind]int  // calls that a fault hit; kinds without hits are left out
	Active    int           // active faults
	Stalled   int           // calls that are being stalled
	Released  int           // stalled calls that a clear released; set by Clear only
	ClearTime time.Duration // how long the clear took; set by Clear only
}

// TotalHits is how many calls a fault hit.
func (r Report) TotalHits() (n int) {
	for _, hits := range r.Hits {
		n += hits
	}
	return n
}

// Report returns the counts. A fault that alters an answer counts as a hit when it
// does so, not before.
func (i *Injector) Report() Report {
	r := Report{Eligible: int(i.eligible.Load()), Hits: make(map[Kind]int)}
	for k, n := range i.hits {
		if n := n.Load(); n > 0 {
			r.Hits[k] = int(n)
		}
	}
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range i.leases {
		stalled, active := l.status(now)
		r.Stalled += stalled
		if active {
			r.Active++
		}
	}
	return r
}

// draw returns the next number of a sequence of which every part, however short, is
// spread evenly over 0 to 1: multiples of the golden ratio (Weyl, "Über die
// Gleichverteilung von Zahlen mod. Eins", 1916).
func (i *Injector) draw() (n uint64, u float64) {
	n = i.draws.Add(1)
	return n, weyl(n, math.Phi, i.phase)
}

func weyl(n uint64, ratio, phase float64) float64 {
	_, u := math.Modf(float64(n%(1<<32))*ratio + phase)
	return u
}

// pick selects the fault for a call, if any, and returns the call's number.
func (i *Injector) pick(r *http.Request) (*Lease, uint64) {
	active := i.active.Load()
	if active == nil || len(*active) == 0 {
		return nil, 0
	}
	var n uint64
	var u, taken float64
	now := time.Now()
	for _, l := range *active {
		if !l.active(now) || l.scope.Match != nil && !l.scope.Match(r) {
			continue
		}
		if n == 0 { // one draw a call, and none for calls that no fault matches
			n, u = i.draw()
			i.eligible.Add(1)
		}
		if u < taken+l.fault.Share {
			return l, n
		}
		taken += l.fault.Share
	}
	return nil, 0
}

// RoundTrip sends a call, with the fault that is selected for it.
func (i *Injector) RoundTrip(r *http.Request) (*http.Response, error) {
	l, n := i.pick(r)
	if l == nil {
		return i.next.RoundTrip(r)
	}
	return l.apply(r, n)
}

// CloseIdleConnections closes those of the next round tripper.
func (i *Injector) CloseIdleConnections() {
	if c, ok := i.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Lease is a fault that is active until it expires. The expiry is checked where the
// fault applies, so that no call is needed to end it. It is safe for concurrent use.
type Lease struct {
	injector *Injector
	fault    Fault
	scope    Scope
	done     chan struct{} // closed when the lease has ended

	mu        sync.Mutex
	expiresAt time.Time // with its monotonic reading
	ended     bool
	hits      int
	stalled   int
	idle      sync.Cond // no call is stalled any more
}

// Renew keeps the fault active for ttl from now on. ErrLeaseExpired: the lease has
// ended for good, because the injecting process renewed it too late.
func (l *Lease) Renew(ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return fmt.Errorf("renew %s: %w", l.fault.Kind, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.activeLocked(now) {
		return fmt.Errorf("renew %s: %w", l.fault.Kind, ErrLeaseExpired)
	}
	l.expiresAt = now.Add(ttl)
	return nil
}

// Clear removes this fault, as Injector.Clear does with all.
func (l *Lease) Clear(ctx context.Context) (Report, error) { return l.injector.clear(ctx, []*Lease{l}) }

// Active reports whether the fault can still hit calls.
func (l *Lease) Active() bool { return l.active(time.Now()) }

func (l *Lease) active(now time.Time) bool {
	_, active := l.status(now)
	return active
}

// activeLocked ends an expired lease for good.
func (l *Lease) activeLocked(now time.Time) bool {
	if !now.Before(l.expiresAt) {
		l.endLocked()
	}
	return !l.ended
}

func (l *Lease) endLocked() {
	if !l.ended {
		l.ended = true
		close(l.done)
	}
}

func (l *Lease) status(now time.Time) (stalled int, active bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled, l.activeLocked(now)
}

// end ends the lease and returns how many calls it stalled until now.
func (l *Lease) end() (stalled int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked()
	return l.stalled
}

// hit reports whether the fault still hits a call that it was selected for, and
// calls the call's hit function. After a clear it never hits.
func (l *Lease) hit(ctx context.Context) bool {
	if !l.claimHit() {
		return false
	}
	if onHit, ok := ctx.Value(hitFuncKey{}).(func(Kind)); ok {
		onHit(l.fault.Kind)
	}
	return true
}

func (l *Lease) claimHit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.activeLocked(time.Now()) || l.scope.MaxHits > 0 && l.hits >= l.scope.MaxHits {
		return false
	}
	l.hits++
	l.injector.hits[l.fault.Kind].Add(1)
	return true
}

type hitFuncKey struct{}

// WithHitFunc returns a context for one call. If a fault hits the call, onHit is
// called once, from the goroutine that makes the call or reads its answer.
func WithHitFunc(ctx context.Context, onHit func(Kind)) context.Context {
	return context.WithValue(ctx, hitFuncKey{}, onHit)
}

// untilCleared is longer than any lease.
const untilCleared = time.Duration(math.MaxInt64)

// stall waits for d, for the end of the lease, or for that of the caller, which
// alone is an error.
func (l *Lease) stall(ctx context.Context, d time.Duration) error {
	started := time.Now()
	if !l.addStalled() {
		return nil
	}
	defer l.removeStalled()
	for {
		wait := min(d-time.Since(started), l.remaining())
		if wait <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.done:
			return nil
		case <-time.After(wait): // the lease may have been renewed
		}
	}
}

// remaining is how long the lease still lasts.
func (l *Lease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.activeLocked(now) {
		return 0
	}
	return l.expiresAt.Sub(now)
}

func (l *Lease) addStalled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.activeLocked(time.Now()) {
		return false
	}
	l.stalled++
	return true
}

func (l *Lease) removeStalled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled--; l.stalled == 0 {
		l.idle.Broadcast()
	}
}

// waitIdle waits until no call is stalled. None is added: the lease has ended.
func (l *Lease) waitIdle(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.stalled > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("clear %s: %d calls are still stalled: %w", l.fault.Kind, l.stalled, context.Cause(ctx))
		}
		l.idle.Wait()
	}
	return nil
}
