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
	owner *Injector
	fault Fault
	scope Scope
	gone  chan struct{} // closed when it has been cleared

	mu     sync.Mutex
	ends   time.Time // with its monotonic reading
	over   bool
	struck int
	held   int
	empty  chan struct{} // closed when nobody is held any more; nil: nobody waits for that
}

// Renew lets the fault stand for ttl from now on. ErrExpired: it has ended, and
// stays so; the one who injects was away for too long.
func (l *Lease) Renew(ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return fmt.Errorf("renew %s: %w", l.fault.Kind, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.standsLocked(now) {
		return fmt.Errorf("renew %s: %w", l.fault.Kind, ErrExpired)
	}
	l.ends = now.Add(ttl)
	return nil
}

// Clear takes this fault away, as Injector.Clear does with all.
func (l *Lease) Clear(ctx context.Context) (Report, error) { return l.owner.clear(ctx, []*Lease{l}) }

// Struck is how many calls the fault has befallen.
func (l *Lease) Struck() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.struck
}

// Stands says whether calls can still be befallen.
func (l *Lease) Stands() bool { return l.stands(time.Now()) }

func (l *Lease) stands(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standsLocked(now)
}

// standsLocked ends a lease whose time is over, for good.
func (l *Lease) standsLocked(now time.Time) bool {
	if !l.over && !now.Before(l.ends) {
		l.over = true
		close(l.gone)
	}
	return !l.over
}

func (l *Lease) look(now time.Time) (held int, stands bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held, l.standsLocked(now)
}

// finish ends it, and says how many calls it held until now.
func (l *Lease) finish() (held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.gone)
	}
	return l.held
}

// strike says whether the fault still befalls a call that it has been chosen for,
// and tells who watches that. After a clear it never does.
func (l *Lease) strike(ctx context.Context) bool {
	if !l.strikes() {
		return false
	}
	if tell, ok := ctx.Value(watchKey{}).(func(Kind)); ok {
		tell(l.fault.Kind)
	}
	return true
}

func (l *Lease) strikes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.standsLocked(time.Now()) || l.scope.Most > 0 && l.struck >= l.scope.Most {
		return false
	}
	l.struck++
	l.owner.struck[l.fault.Kind].Add(1)
	return true
}

type watchKey struct{}

// Watch returns a context for one call: tell is called when a fault befalls it, at
// most once, from whichever goroutine makes the call or reads its answer.
func Watch(ctx context.Context, tell func(Kind)) context.Context {
	return context.WithValue(ctx, watchKey{}, tell)
}

// forever is longer than any lease.
const forever = time.Duration(math.MaxInt64)

// hold waits for d, for the end of the lease, or for that of the caller, which
// alone is an error.
func (l *Lease) hold(ctx context.Context, d time.Duration) error {
	began := time.Now()
	if !l.enter() {
		return nil
	}
	defer l.leave()
	for {
		wait := min(d-time.Since(began), l.left())
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-l.gone:
			timer.Stop()
			return nil
		case <-timer.C: // the lease may have been renewed
		}
	}
}

// left is how long the lease still lasts.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.standsLocked(now) {
		return 0
	}
	return l.ends.Sub(now)
}

func (l *Lease) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.standsLocked(time.Now()) {
		return false
	}
	l.held++
	return true
}

func (l *Lease) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held--; l.held == 0 && l.empty != nil {
		close(l.empty)
		l.empty = nil
	}
}

// drained waits until nobody is held. Nobody can come: the lease is over.
func (l *Lease) drained(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	if held > 0 && l.empty == nil {
		l.empty = make(chan struct{})
	}
	empty := l.empty
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
