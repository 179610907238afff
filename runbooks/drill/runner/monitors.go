package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"headgate/internal/format"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// startMonitors starts the goroutines beside a run: they renew faults, check production and evidence, and save, one
// each, so that none delays another. stop ends them and waits for them.
func (a *activeRun) startMonitors() (stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	var gone sync.WaitGroup
	every := func(d time.Duration, poke <-chan struct{}, f func(context.Context)) {
		gone.Go(func() {
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
					a.abort("monitoring the drill failed: %v", err)
				}
			}
		})
	}
	every(renewInterval, nil, a.renewLeases)
	every(productionInterval, nil, a.checkProduction)
	every(observeInterval, nil, a.checkEvidence)
	every(saveInterval, a.dirty, func(ctx context.Context) { a.save(ctx); a.checkFreeze(ctx) })
	return func() { cancel(); gone.Wait() }
}

// abort stops the run with verdict aborted, unless it has been stopped before.
func (a *activeRun) abort(why string, args ...any) { a.stop(endWith(drill.Aborted, why, args...)) }

// renewLeases extends the leases of faults while the run can be saved. It does so concurrently: one that hangs must not
// let the others expire.
func (a *activeRun) renewLeases(ctx context.Context) {
	var unsaved time.Duration
	leases := map[*injectedFault]drill.Lease{}
	a.update(func(*drill.Run) {
		unsaved = time.Since(a.lastSaved)
		for _, h := range a.faults {
			if a.renewAllowed {
				leases[h] = h.lease
			}
		}
	})
	if unsaved > maxUnsaved {
		a.abort("the record could not be written for %s", format.Duration(maxUnsaved))
		return
	}
	var gone sync.WaitGroup
	for h, lease := range leases {
		gone.Go(func() {
			err := doWithTimeout(ctx, LeaseTTL/2, func(ctx context.Context) error { return lease.Renew(ctx, LeaseTTL) })
			if errors.Is(err, fault.ErrLeaseExpired) && ctx.Err() == nil {
				a.reinject(ctx, h)
			}
		})
	}
	gone.Wait()
}

// maxExpirations is how often a lease may expire because the machine was busy.
const maxExpirations = 3

// reinject puts a fault in force again whose lease has expired.
func (a *activeRun) reinject(ctx context.Context, h *injectedFault) {
	h.expirations++
	if h.expirations > maxExpirations {
		a.abort("fault %s expired %d times: the machine is too busy to renew it", h.injection.Kind, h.expirations)
		return
	}
	lease, err := a.newLease(ctx, LeaseTTL, h)
	if err != nil {
		return // the next renewal finds it expired again
	}
	inForce := false
	a.update(func(*drill.Run) {
		if inForce = a.renewAllowed && slices.Contains(a.faults, h); inForce {
			h.lease = lease
		}
	})
	if !inForce {
		clearLateFault(lease)
	}
}

// checkProduction stops the run when production needs it.
func (a *activeRun) checkProduction(ctx context.Context) {
	check := func() error {
		return doWithTimeout(ctx, callTimeout/2, func(ctx context.Context) error {
			return a.o.Production.Check(ctx, a.claimed)
		})
	}
	err := check()
	var why *drill.StopError
	if err != nil && !errors.As(err, &why) {
		err = check() // the machine may have stalled for a moment
	}
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &why):
		a.abort("%s", why.Reason)
	case err != nil:
		a.abort("production cannot be checked: %v", err)
	}
}

// checkEvidence stops the run when abort_if holds, or when evidence is missing.
func (a *activeRun) checkEvidence(ctx context.Context) {
	if !a.loadRunning() {
		return
	}
	evaluation, err := a.observe(ctx)
	if err == nil && evaluation.Evidence.StaleReason != "" {
		err = errors.New(evaluation.Evidence.StaleReason)
	}
	var blind time.Duration
	a.update(func(*drill.Run) { blind = time.Since(a.lastFresh) })
	switch {
	case ctx.Err() != nil:
		return
	case blind > maxBlind:
		a.abort("telemetry is missing: %v", err)
		return
	case evaluation == nil:
		return
	}
	for _, e := range evaluation.Run.Spec.AbortIf {
		if r := evaluation.Measure(e.Measure); r.Measured && !r.NotObserved && e.Holds(r.Value) {
			why := fmt.Sprintf("abort_if %s: it is %s", e, drill.FormatAmount(r.Value, e.Unit))
			if broken := evaluation.ViolationsSoFar(); broken != "" {
				a.stop(endWith(drill.Failed, "%s; stopped early: %s", broken, why))
			}
			a.abort("%s", why) // without effect if it has been stopped
			return
		}
	}
}

// checkFreeze stops the run when drills have been frozen, by this process or another.
func (a *activeRun) checkFreeze(ctx context.Context) {
	f, err := callWithTimeout(ctx, callTimeout, a.o.Store.Frozen, nil)
	if err == nil && f.On {
		a.stop(frozenBy(f))
	}
}
