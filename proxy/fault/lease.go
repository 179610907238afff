package fault

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

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
