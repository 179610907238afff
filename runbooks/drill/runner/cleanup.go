package runner

import (
	"context"
	"fmt"
	"time"

	"headgate/runbooks/drill"
)

// clearAttempts is how often clearing is tried before the leases have to do.
const clearAttempts = 3

// cleanUp clears what is injected, takes steps back in reverse and lets the stage
// go, however the run ended. The run's own context may have ended: it has its own. It
// returns what is left behind; empty: nothing.
func (a *activeRun) cleanUp() (left string) {
	a.mu.Lock()
	a.renewAllowed = false
	hadFaults := len(a.faults) > 0
	a.mu.Unlock()
	ctx := context.Background()
	if a.env == nil {
		close(a.cleanedUp)
		return ""
	}
	if hadFaults || a.loadRunning() {
		for try := 1; try <= clearAttempts; try++ {
			if left = a.clearFaults(ctx); left == "" {
				break
			}
		}
	}
	a.undoSteps(ctx)
	close(a.cleanedUp)
	began := time.Now()
	if err := doWithTimeout(ctx, closeTimeout, a.env.Close); err != nil {
		a.recordUndo(fmt.Sprintf("the %s", a.header().Spec.Target), began, err, "")
	}
	return left
}

// clearFaults clears all faults and says what is left of them; empty: nothing.
func (a *activeRun) clearFaults(ctx context.Context) string {
	switch c, err := a.clearAll(ctx); {
	case err != nil:
		return fmt.Sprintf("the faults did not clear: %v", err)
	case !c.Confirmed || c.Held > 0:
		return fmt.Sprintf("the faults did not clear: %d calls are still held", c.Held)
	}
	return ""
}

// loadRunning says whether the load has begun, and its end has not been seen.
func (a *activeRun) loadRunning() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.facts.ScenarioStart.IsZero() && !a.facts.Complete
}

// clearAll ends all faults, within ClearLimit.
func (a *activeRun) clearAll(ctx context.Context) (drill.ClearResult, error) {
	a.mu.Lock()
	a.faults = nil
	a.mu.Unlock()
	began := time.Now()
	c, err := callWithTimeout(ctx, drill.ClearLimit, a.env.Clear, nil)
	if err == nil && c.Took == 0 {
		c.Took = time.Since(began)
	}
	a.recordClear("all faults", began, c, err)
	return c, err
}

// undoSteps takes back all steps that still stand, the last first.
func (a *activeRun) undoSteps(ctx context.Context) {
	for {
		a.mu.Lock()
		n := len(a.undoStack)
		if n == 0 {
			a.mu.Unlock()
			return
		}
		u := a.undoStack[n-1]
		a.undoStack = a.undoStack[:n-1]
		a.mu.Unlock()
		_ = a.runUndo(ctx, u) // recorded
	}
}
