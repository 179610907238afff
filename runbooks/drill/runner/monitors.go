package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// startMonitors starts the goroutines beside a run: they renew faults, check production and evidence, and save, each
// for itself, so that none delays another. stop ends them and waits for them.
func (a *activeRun) startMonitors() (stop func()) {
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
				if err := recoverPanic(func() error { f(ctx); return nil }); err != nil {
					a.stop(&stopCause{reason: "monitoring the drill failed: " + err.Error()})
				}
			}
		}()
	}
	every(renewInterval, nil, a.renewLeases)
	every(productionInterval, nil, a.checkProduction)
	every(observeInterval, nil, a.checkEvidence)
	every(saveInterval, a.dirty, func(ctx context.Context) { a.save(ctx); a.checkFreeze(ctx) })
	return func() { cancel(); gone.Wait() }
}

// renewLeases postpones the end of faults while the record can be written. Leases are renewed concurrently: one that
// hangs must not let the others expire.
func (a *activeRun) renewLeases(ctx context.Context) {
	if a.sinceSaved() > maxUnsaved {
		a.stop(&stopCause{reason: "the record could not be written for " + format.Duration(maxUnsaved)})
		return
	}
	a.mu.Lock()
	leases := append([]*injectedFault(nil), a.faults...)
	may := a.renewAllowed
	a.mu.Unlock()
	if !may {
		return
	}
	var gone sync.WaitGroup
	for _, h := range leases {
		gone.Go(func() {
			err := doWithTimeout(ctx, LeaseTTL/2, func(ctx context.Context) error { return a.leaseOf(h).Renew(ctx, LeaseTTL) })
			if errors.Is(err, drill.ErrLeaseExpired) && ctx.Err() == nil {
				a.reinject(ctx, h)
			}
		})
	}
	gone.Wait()
}

func (a *activeRun) leaseOf(h *injectedFault) drill.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.lease
}

// maxExpirations is how often a lease may expire because the machine was busy.
const maxExpirations = 3

// reinject puts a fault in force again whose lease has expired.
func (a *activeRun) reinject(ctx context.Context, h *injectedFault) {
	h.expirations++
	if h.expirations > maxExpirations {
		a.stop(&stopCause{reason: fmt.Sprintf("fault %s expired %d times: the machine is too busy to renew it", h.injection.Kind, h.expirations)})
		return
	}
	lease, err := callWithTimeout(ctx, LeaseTTL, func(ctx context.Context) (drill.Lease, error) {
		return a.env.Inject(ctx, h.target, h.injection, LeaseTTL)
	}, clearLateFault)
	if err != nil {
		return // the next renewal says that it has lapsed
	}
	a.mu.Lock()
	still := a.renewAllowed && slices.Contains(a.faults, h)
	if still {
		h.lease = lease
	}
	a.mu.Unlock()
	if !still {
		clearLateFault(lease)
	}
}

// checkProduction stops the run when production needs it.
func (a *activeRun) checkProduction(ctx context.Context) {
	run := a.header()
	look := func() error {
		return doWithTimeout(ctx, callTimeout/2, func(ctx context.Context) error { return a.o.Production.Check(ctx, run) })
	}
	err := look()
	var why *drill.StopError
	if err != nil && !errors.As(err, &why) {
		err = look() // a machine may stand still for a moment
	}
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &why):
		a.stop(&stopCause{reason: why.Reason})
	case err != nil:
		a.stop(&stopCause{reason: "production cannot be checked: " + err.Error()})
	}
}

// header is the run without what grows.
func (a *activeRun) header() drill.Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.record
	r.Series, r.Messages, r.UndoResults, r.Phases, r.Hypotheses = nil, nil, nil, nil, nil
	return r
}

// checkEvidence stops the run when abort_if holds, or when nothing can be seen.
func (a *activeRun) checkEvidence(ctx context.Context) {
	if !a.loadRunning() {
		return
	}
	err := a.observe(ctx)
	if ctx.Err() != nil {
		return
	}
	l := a.evaluation()
	a.mu.Lock()
	blind := time.Since(a.lastFresh)
	a.mu.Unlock()
	if blind > maxBlind {
		why := l.Evidence.StaleReason
		if err != nil {
			why = err.Error()
		}
		a.stop(&stopCause{reason: "telemetry is missing: " + why})
		return
	}
	if err != nil {
		return
	}
	for _, e := range l.Run.Spec.AbortIf {
		if r := l.Measure(e.Measure); r.Measured && !r.NotObserved && e.Holds(r.Value) {
			a.stop(&stopCause{reason: fmt.Sprintf("abort_if %s: it is %s", e, drill.FormatAmount(r.Value, e.Unit)), violations: l.ViolationsSoFar()})
			return
		}
	}
}

// checkFreeze stops the run when drills have been frozen, by this process or another.
func (a *activeRun) checkFreeze(ctx context.Context) {
	f, err := callWithTimeout(ctx, callTimeout, a.o.Store.Frozen, nil)
	if err == nil && f.On {
		a.stop(frozenCause(f))
	}
}
