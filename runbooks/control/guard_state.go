package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// RollbackPhase is where the automatic rollback of a pool stands.
type RollbackPhase string

// The states of a RollbackState.
const (
	Armed       RollbackPhase = "armed"    // it may roll back
	RollingBack RollbackPhase = "flipping" // it is about to, or is not known to have done it
	RolledBack  RollbackPhase = "flipped"  // it has, and nobody has put the gate back
	Cooldown    RollbackPhase = "cooldown" // the gate was put back a short while ago
)

// RollbackPhases returns every state, in a fixed order.
func RollbackPhases() []RollbackPhase {
	return []RollbackPhase{Armed, RollingBack, RolledBack, Cooldown}
}

// day is the span in which flips are counted.
const day = 24 * time.Hour

// RollbackState is how the automatic rollback of one pool stands. Times are in UTC.
type RollbackState struct {
	Pool      string
	Phase     RollbackPhase
	Since     time.Time
	Until     time.Time // of the cooldown
	Rule      string    // that led to the latest flip
	Incident  string    // of that rule
	ChangeID  string    // ID of the flip; empty while it is not known to be applied
	Rollbacks []time.Time

	HoldUntil  time.Time // until then somebody's decision stands
	HoldActor  string
	HoldReason string // what was decided
}

// recentRollbacks returns how many flips count now.
func (g RollbackState) recentRollbacks(now time.Time) int {
	n := 0
	for _, at := range g.Rollbacks {
		if now.Sub(at) < day {
			n++
		}
	}
	return n
}

// RollbackStore is the memory of guards. Its methods may be called from any
// goroutine and obey their context.
type RollbackStore interface {
	SaveRollbackState(context.Context, RollbackState) error
	// Guards returns the guard of every pool that has had one.
	RollbackStates(context.Context) ([]RollbackState, error)
	// Told says whether an incident has a remark of that kind by that actor, not
	// older than since.
	HasAnnotation(ctx context.Context, incident, kind, actor string, since time.Time) (bool, error)
}

// AutoRollbackSettings says what the automatic rollback may do.
type AutoRollbackSettings struct {
	Auto       bool          // false: every rollback is withheld
	MaxPerDay  int           // flips of a pool in 24 hours
	Cooldown   time.Duration // after the gate was put back
	ManualHold time.Duration // after somebody's decision, in either direction
}

// Validate names every field that cannot be.
func (c AutoRollbackSettings) Validate() error {
	var errs []error
	if c.MaxPerDay < 0 || c.MaxPerDay > maxRollbacks {
		errs = append(errs, fmt.Errorf("the daily maximum is %d: it must be 0 to %d", c.MaxPerDay, maxRollbacks))
	}
	if c.Cooldown < 0 {
		errs = append(errs, fmt.Errorf("the cooldown is %s: it must not be negative", c.Cooldown))
	}
	if c.ManualHold < 0 {
		errs = append(errs, fmt.Errorf("the latch is %s: it must not be negative", c.ManualHold))
	}
	return errors.Join(errs...)
}

// maxRollbacks bounds the flips of a pool that are remembered.
const maxRollbacks = 100

// clampToNow makes a guard that was read fit for now: what a clock that was set back
// has put into the future counts from now on, and no longer than settings say.
func (g RollbackState) clampToNow(now time.Time, c AutoRollbackSettings) RollbackState {
	g.Until = earlier(g.Until, now.Add(c.Cooldown))
	g.HoldUntil = earlier(g.HoldUntil, now.Add(c.ManualHold))
	g.Rollbacks = slices.Clone(g.Rollbacks[max(0, len(g.Rollbacks)-maxRollbacks):])
	for n, at := range g.Rollbacks {
		g.Rollbacks[n] = earlier(at, now)
	}
	return g
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
