package drill

import (
	"context"
	"fmt"
	"time"
)

// clearTries is how often clearing is tried before the leases have to do.
const clearTries = 3

// takeDown clears what is injected, takes steps back in reverse and lets the stage
// go, however the run ended. The run's own context may have ended: it has its own. It
// returns what is left behind; empty: nothing.
func (a *active) takeDown() (left string) {
	a.mu.Lock()
	a.mayRenew = false
	hadFaults := len(a.leases) > 0
	a.mu.Unlock()
	ctx := context.Background()
	if a.stage == nil {
		close(a.down)
		return ""
	}
	if hadFaults || a.loaded() {
		for try := 1; try <= clearTries; try++ {
			if left = a.uncleared(ctx); left == "" {
				break
			}
		}
	}
	a.takeBack(ctx)
	close(a.down)
	began := time.Now()
	if err := boundedly(ctx, closeLimit, a.stage.Close); err != nil {
		a.undone(fmt.Sprintf("the %s", a.brief().Spec.Target), began, err, "")
	}
	return left
}

// uncleared clears all faults and says what is left of them; empty: nothing.
func (a *active) uncleared(ctx context.Context) string {
	switch c, err := a.clearAll(ctx); {
	case err != nil:
		return fmt.Sprintf("the faults did not clear: %v", err)
	case !c.Confirmed || c.Held > 0:
		return fmt.Sprintf("the faults did not clear: %d calls are still held", c.Held)
	}
	return ""
}

// loaded says whether the load has begun, and its end has not been seen.
func (a *active) loaded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.facts.Zero.IsZero() && !a.facts.Over
}

// clearAll ends all faults, within ClearLimit.
func (a *active) clearAll(ctx context.Context) (Cleared, error) {
	a.mu.Lock()
	a.leases = nil
	a.mu.Unlock()
	began := time.Now()
	c, err := bounded(ctx, ClearLimit, a.stage.Clear, nil)
	if err == nil && c.Took == 0 {
		c.Took = time.Since(began)
	}
	a.cleared("all faults", began, c, err)
	return c, err
}

// takeBack takes back all steps that still stand, the last first.
func (a *active) takeBack(ctx context.Context) {
	for {
		a.mu.Lock()
		n := len(a.undos)
		if n == 0 {
			a.mu.Unlock()
			return
		}
		u := a.undos[n-1]
		a.undos = a.undos[:n-1]
		a.mu.Unlock()
		_ = a.undoOne(ctx, u) // recorded
	}
}
