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

// MaxTTL bounds a lease: whoever injects must show that it is alive.
const MaxTTL = time.Minute

// maxLeases bounds the faults that stand at one time.
const maxLeases = 64

// Errors of an injection.
var (
	ErrShareExceeded = errors.New("the shares of the standing faults would be more than 1 together")
	ErrLeaseExpired  = errors.New("the lease is over: the fault has been cleared")
)

// Injector is a round tripper that lets faults befall some of the calls that go
// through it. While none stands it is the next one, and nothing else. It is safe
// for concurrent use.
type Injector struct {
	next     http.RoundTripper
	active   atomic.Pointer[[]*Lease] // what can befall a call; nil: nothing
	draws    atomic.Uint64
	phase    float64
	eligible atomic.Int64
	hits     map[Kind]*atomic.Int64

	mu     sync.Mutex
	leases []*Lease // that stand, or still hold somebody
}

// New puts an Injector in front of next. The seed says which of the calls are
// befallen; how many are is up to the faults.
func New(next http.RoundTripper, seed uint64) *Injector {
	_, phase := math.Modf(float64(seed%1000) * math.Sqrt2)
	i := &Injector{next: next, phase: phase, hits: make(map[Kind]*atomic.Int64)}
	for _, k := range Kinds() {
		i.hits[k] = new(atomic.Int64)
	}
	return i
}

// Scope bounds whom a fault can befall. The zero value is every call.
type Scope struct {
	// Select says whether a call may be befallen at all; the share is of those that
	// may. It must be fast, and safe for concurrent use. Nil: every call.
	Match   func(*http.Request) bool
	MaxHits int // calls that it befalls at most; 0: no bound
}

// Inject makes a fault stand for ttl, or until the lease is renewed or cleared.
// With a share of 0 the lease is one like any other, and no call knows of it.
func (i *Injector) Inject(f Fault, s Scope, ttl time.Duration) (*Lease, error) {
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("inject %s: %w", f.Kind, err)
	}
	if s.MaxHits < 0 {
		return nil, fmt.Errorf("inject %s: most: %d, want 0 or more", f.Kind, s.MaxHits)
	}
	if err := checkTTL(ttl); err != nil {
		return nil, fmt.Errorf("inject %s: %w", f.Kind, err)
	}
	l := &Lease{injector: i, fault: f, scope: s, expiresAt: time.Now().Add(ttl), done: make(chan struct{})}
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
		return fmt.Errorf("%d faults stand already", maxLeases)
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

// sweepLocked forgets leases that are over and hold nobody.
func (i *Injector) sweepLocked() {
	now := time.Now()
	i.leases = slices.DeleteFunc(i.leases, func(l *Lease) bool {
		held, stands := l.status(now)
		return !stands && held == 0
	})
}

// publishLocked shows calls what stands. What befalls nobody is not among it.
func (i *Injector) publishLocked() {
	i.sweepLocked()
	now := time.Now()
	var all []*Lease
	for _, l := range i.leases {
		if l.fault.Share > 0 && l.active(now) {
			all = append(all, l)
		}
	}
	if all == nil {
		i.active.Store(nil)
		return
	}
	i.active.Store(&all)
}

// Clear takes all faults away. Calls that one holds are let go at once: they go
// upstream, and the rest of a slow answer comes as fast as it can. From then on no
// call is befallen, those included that were chosen before. It waits until nothing
// is held; an error says that ctx ended first.
func (i *Injector) Clear(ctx context.Context) (Report, error) {
	i.mu.Lock()
	all := slices.Clone(i.leases)
	i.mu.Unlock()
	return i.clear(ctx, all)
}

func (i *Injector) clear(ctx context.Context, all []*Lease) (Report, error) {
	began := time.Now()
	letGo := 0
	for _, l := range all {
		letGo += l.end()
	}
	i.mu.Lock()
	i.publishLocked()
	i.mu.Unlock()
	var err error
	for _, l := range all {
		err = errors.Join(err, l.waitIdle(ctx))
	}
	r := i.Report()
	r.ClearTime, r.Released = time.Since(began), letGo
	return r, err
}

// Report is what an Injector has done so far.
type Report struct {
	Eligible  int           // calls that a standing fault could have befallen
	Hits      map[Kind]int  // calls that one befell; kinds that befell none are left out
	Active    int           // faults that stand
	Stalled   int           // calls that are being held at this moment
	Released  int           // calls that a clear found held
	ClearTime time.Duration // to clear; this and Released are 0 from Injector.Report
}

// TotalHits is how many calls a fault befell.
func (r Report) TotalHits() (n int) {
	for _, one := range r.Hits {
		n += one
	}
	return n
}

// Report counts. A fault that spoils an answer befalls the call when it does so,
// not before.
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
		held, stands := l.status(now)
		r.Stalled += held
		if stands {
			r.Active++
		}
	}
	return r
}

// draw returns the next number of a sequence that is spread evenly over 0 to 1,
// however short a part of it is looked at: multiples of the golden ratio (Weyl,
// "Über die Gleichverteilung von Zahlen mod. Eins", 1916).
func (i *Injector) draw() (n uint64, u float64) {
	n = i.draws.Add(1)
	return n, weyl(n, math.Phi, i.phase)
}

func weyl(n uint64, ratio, phase float64) float64 {
	_, u := math.Modf(float64(n%(1<<32))*ratio + phase)
	return u
}

// pick says which fault befalls a call, if any does, and its number.
func (i *Injector) pick(r *http.Request) (*Lease, uint64) {
	standing := i.active.Load()
	if standing == nil {
		return nil, 0
	}
	var n uint64
	var u, taken float64
	now := time.Now()
	for _, l := range *standing {
		if !l.active(now) || l.scope.Match != nil && !l.scope.Match(r) {
			continue
		}
		if n == 0 { // one draw a call, and none for those that nothing selects
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

// RoundTrip implements http.RoundTripper.
func (i *Injector) RoundTrip(r *http.Request) (*http.Response, error) {
	l, n := i.pick(r)
	if l == nil {
		return i.next.RoundTrip(r)
	}
	return l.apply(r, n)
}

// CloseIdleConnections lets go of the next one's.
func (i *Injector) CloseIdleConnections() {
	if c, ok := i.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Lease is a fault that stands until its time is over. It is kept where it works:
// nobody has to call anything for it to end. It is safe for concurrent use.
type Lease struct {
	injector *Injector
	fault    Fault
	scope    Scope
	done     chan struct{} // closed when it has been cleared

	mu        sync.Mutex
	expiresAt time.Time // with its monotonic reading
	ended     bool
	hits      int
	stalled   int
	idle      chan struct{} // closed when nobody is held any more; nil: nobody waits for that
}

// Renew lets the fault stand for ttl from now on. ErrLeaseExpired: it has ended, and
// stays so; the one who injects was away for too long.
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

// Clear takes this fault away, as Injector.Clear does with all.
func (l *Lease) Clear(ctx context.Context) (Report, error) { return l.injector.clear(ctx, []*Lease{l}) }

// Hits is how many calls the fault has befallen.
func (l *Lease) Hits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hits
}

// Active says whether calls can still be befallen.
func (l *Lease) Active() bool { return l.active(time.Now()) }

func (l *Lease) active(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.activeLocked(now)
}

// activeLocked ends a lease whose time is over, for good.
func (l *Lease) activeLocked(now time.Time) bool {
	if !l.ended && !now.Before(l.expiresAt) {
		l.ended = true
		close(l.done)
	}
	return !l.ended
}

func (l *Lease) status(now time.Time) (held int, stands bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled, l.activeLocked(now)
}

// end ends it, and says how many calls it held until now.
func (l *Lease) end() (held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.done)
	}
	return l.stalled
}

// hit says whether the fault still befalls a call that it has been chosen for,
// and tells who watches that. After a clear it never does.
func (l *Lease) hit(ctx context.Context) bool {
	if !l.claimHit() {
		return false
	}
	if tell, ok := ctx.Value(hitFuncKey{}).(func(Kind)); ok {
		tell(l.fault.Kind)
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

// WithHitFunc returns a context for one call: tell is called when a fault befalls it, at
// most once, from whichever goroutine makes the call or reads its answer.
func WithHitFunc(ctx context.Context, tell func(Kind)) context.Context {
	return context.WithValue(ctx, hitFuncKey{}, tell)
}

// untilCleared is longer than any lease.
const untilCleared = time.Duration(math.MaxInt64)

// stall waits for d, for the end of the lease, or for that of the caller, which
// alone is an error.
func (l *Lease) stall(ctx context.Context, d time.Duration) error {
	began := time.Now()
	if !l.addStalled() {
		return nil
	}
	defer l.removeStalled()
	for {
		wait := min(d-time.Since(began), l.remaining())
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-l.done:
			timer.Stop()
			return nil
		case <-timer.C: // the lease may have been renewed
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
	if l.stalled--; l.stalled == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// waitIdle waits until nobody is held. Nobody can come: the lease is over.
func (l *Lease) waitIdle(ctx context.Context) error {
	l.mu.Lock()
	held := l.stalled
	if held > 0 && l.idle == nil {
		l.idle = make(chan struct{})
	}
	empty := l.idle
	l.mu.Unlock()
	if held == 0 {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("clear %s: %d calls are still held: %w", l.fault.Kind, held, context.Cause(ctx))
	}
}
