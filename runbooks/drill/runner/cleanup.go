package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/internal/format"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// clearAttempts is how often clearing is tried; after that the leases end the faults.
const clearAttempts = 3

// cleanUp clears all faults, reverts steps, the last first, and closes the environment, however the run ended. It does
// not use the run's context, which may have ended. The error says which faults are left.
func (a *activeRun) cleanUp() (left error) {
	hadFaults := false
	a.update(func(*drill.Run) { a.renewAllowed, hadFaults = false, len(a.faults) > 0 })
	if a.env == nil {
		close(a.cleanedUp)
		return nil
	}
	ctx := context.Background()
	if hadFaults || a.loadRunning() {
		for range clearAttempts {
			if left = a.clearAll(ctx); left == nil {
				break
			}
		}
	}
	a.revertSteps(ctx)
	close(a.cleanedUp)
	began := time.Now()
	if err := doWithTimeout(ctx, closeTimeout, a.env.Close); err != nil {
		a.recordUndo(fmt.Sprintf("the %s", a.spec().Target), began, err, "")
	}
	return left
}

// loadRunning says whether the load has begun, and its end has not been seen.
func (a *activeRun) loadRunning() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.facts.ScenarioStart.IsZero() && !a.facts.Complete
}

// clearAll ends all faults, within ClearLimit. The error says what is left.
func (a *activeRun) clearAll(ctx context.Context) error {
	a.update(func(*drill.Run) { a.faults = nil })
	c, err := a.clear(ctx, "all faults", drill.ClearLimit, a.env.Clear)
	if err != nil {
		return err
	}
	return c.Err()
}

// clear ends faults and records the result.
func (a *activeRun) clear(
	ctx context.Context, what string, limit time.Duration, f func(context.Context) (drill.ClearResult, error),
) (drill.ClearResult, error) {
	began := time.Now()
	c, err := callWithTimeout(ctx, limit, f, nil)
	took, failure := time.Since(began), err
	if err == nil {
		c.Took, failure = cmp.Or(c.Took, took), c.Err()
	}
	a.recordUndo(what, began, failure, format.Plural(c.Released, "call")+" released")
	a.update(func(r *drill.Run) {
		if !errors.Is(err, fault.ErrLeaseExpired) {
			a.facts.ClearResults = append(a.facts.ClearResults, c)
		}
		r.ClearTook = max(r.ClearTook, took)
	})
	return c, err
}

// revertSteps reverts all steps that are still in effect, the last first.
func (a *activeRun) revertSteps(ctx context.Context) {
	for {
		u, ok := a.takeRevert(func(revertAction) bool { return true })
		if !ok {
			return
		}
		_ = a.runRevert(ctx, u) // recorded
	}
}
