package drill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// guard watches over the run while it goes on: it renews what is injected, looks at
// production and at what is seen, and records; each for itself, so that none holds up
// another. The function that it returns ends
// that, and returns when it has.
func (a *active) guard() (stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	var gone sync.WaitGroup
	every := func(d time.Duration, poke <-chan struct{}, f func(context.Context)) {
		gone.Add(1)
		go func() {
			defer gone.Done()
			tick := time.NewTicker(d)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				case <-poke:
				}
				_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { f(ctx); return struct{}{}, nil })
				if err != nil {
					a.stop(&stopped{why: "watching over the drill failed: " + err.Error()})
				}
			}
		}()
	}
	every(renewal, nil, a.renew)
	every(watching, nil, a.checkProduction)
	every(looking, nil, a.checkSight)
	every(saving, a.dirty, func(ctx context.Context) { a.save(ctx); a.checkRecord(ctx) })
	return func() { cancel(); gone.Wait() }
}

// renew puts off the end of what is injected, while the record can be written. It
// waits for nobody: a lease that hangs must not take the others with it.
func (a *active) renew(ctx context.Context) {
	if a.savedFor() > unsaved {
		a.stop(&stopped{why: "the record could not be written for " + formatDuration(unsaved)})
		return
	}
	a.mu.Lock()
	leases := append([]*held(nil), a.leases...)
	may := a.mayRenew
	a.mu.Unlock()
	if !may {
		return
	}
	var gone sync.WaitGroup
	for _, h := range leases {
		gone.Go(func() {
			err := boundedly(ctx, LeaseTTL/2, func(ctx context.Context) error { return a.leaseOf(h).Renew(ctx, LeaseTTL) })
			if errors.Is(err, ErrLapsed) && ctx.Err() == nil {
				a.lapsed(ctx, h)
			}
		})
	}
	gone.Wait()
}

func (a *active) leaseOf(h *held) Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.lease
}

// mostLapses is how often a lease may lapse because the machine was busy.
const mostLapses = 3

// lapsed puts a fault in force again that ended although its runner lives.
func (a *active) lapsed(ctx context.Context, h *held) {
	h.lapses++
	if h.lapses > mostLapses {
		a.stop(&stopped{why: fmt.Sprintf("fault %s lapsed %d times: the machine is too busy to renew it", h.injection.Kind, h.lapses)})
		return
	}
	lease, err := bounded(ctx, LeaseTTL, func(ctx context.Context) (Lease, error) {
		return a.stage.Inject(ctx, h.way, h.injection, LeaseTTL)
	}, clearLate)
	if err != nil {
		return // the next renewal says that it has lapsed
	}
	a.mu.Lock()
	still := false
	for _, o := range a.leases {
		still = still || o == h
	}
	if still && a.mayRenew {
		h.lease = lease
	}
	still = still && a.mayRenew
	a.mu.Unlock()
	if !still {
		clearLate(lease)
	}
}

// checkProduction stops the run when production needs it.
func (a *active) checkProduction(ctx context.Context) {
	run := a.brief()
	look := func() error {
		return boundedly(ctx, callLimit/2, func(ctx context.Context) error { return a.o.Production.Check(ctx, run) })
	}
	err := look()
	var why *StopError
	if err != nil && !errors.As(err, &why) {
		err = look() // a machine may stand still for a moment
	}
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &why):
		a.stop(&stopped{why: why.Why})
	case err != nil:
		a.stop(&stopped{why: "production cannot be watched: " + err.Error()})
	}
}

// brief is the run without what grows.
func (a *active) brief() Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.run
	r.Series, r.Messages, r.Undo, r.Phases, r.Hypotheses = nil, nil, nil, nil, nil
	return r
}

// checkSight stops the run when abort_if holds, or when nothing can be seen.
func (a *active) checkSight(ctx context.Context) {
	if !a.loaded() {
		return
	}
	err := a.look(ctx)
	if ctx.Err() != nil {
		return
	}
	l := a.looked()
	a.mu.Lock()
	blind := time.Since(a.seen)
	a.mu.Unlock()
	if blind > blindness {
		why := l.Evidence.Stale
		if err != nil {
			why = err.Error()
		}
		a.stop(&stopped{why: "telemetry is missing: " + why})
		return
	}
	if err != nil {
		return
	}
	for _, e := range l.Run.Spec.AbortIf {
		if r := l.measure(e.Measure); r.Known && !r.Never && e.Holds(r.Value) {
			a.stop(&stopped{why: fmt.Sprintf("abort_if %s: it is %s", e, Amount(r.Value, e.Unit)), wrong: l.wrong()})
			return
		}
	}
}

// checkRecord stops the run when drills have been frozen, by whomever.
func (a *active) checkRecord(ctx context.Context) {
	f, err := bounded(ctx, callLimit, a.o.Store.Frozen, nil)
	if err == nil && f.On {
		a.stop(frozen(f))
	}
}
