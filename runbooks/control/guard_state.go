package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// GuardState is where the automatic rollback of a pool stands.
type GuardState string

// The states of a Guard.
const (
	Armed    GuardState = "armed"    // it may roll back
	Flipping GuardState = "flipping" // it is about to, or is not known to have done it
	Flipped  GuardState = "flipped"  // it has, and nobody has put the gate back
	Cooldown GuardState = "cooldown" // the gate was put back a short while ago
)

// GuardStates returns every state, in a fixed order.
func GuardStates() []GuardState { return []GuardState{Armed, Flipping, Flipped, Cooldown} }

// day is the span in which flips are counted.
const day = 24 * time.Hour

// Guard is how the automatic rollback of one pool stands. Times are in UTC.
type Guard struct {
	Pool     string
	State    GuardState
	Since    time.Time
	Until    time.Time // of the cooldown
	Rule     string    // that led to the latest flip
	Incident string    // of that rule
	Change   string    // ID of the flip; empty while it is not known to be applied
	Flips    []time.Time

	LatchedUntil time.Time // until then somebody's decision stands
	LatchedBy    string
	Latch        string // what was decided
}

// flips returns how many flips count now.
func (g Guard) flips(now time.Time) int {
	n := 0
	for _, at := range g.Flips {
		if now.Sub(at) < day {
			n++
		}
	}
	return n
}

// GuardJournal is the memory of guards. Its methods may be called from any
// goroutine and obey their context.
type GuardJournal interface {
	SaveGuard(context.Context, Guard) error
	// Guards returns the guard of every pool that has had one.
	Guards(context.Context) ([]Guard, error)
	// Told says whether an incident has a remark of that kind by that actor, not
	// older than since.
	Told(ctx context.Context, incident, kind, actor string, since time.Time) (bool, error)
}

// GuardConfig says what the automatic rollback may do.
type GuardConfig struct {
	Auto       bool          // false: every rollback is withheld
	MaxPerDay  int           // flips of a pool in 24 hours
	Cooldown   time.Duration // after the gate was put back
	HumanLatch time.Duration // after somebody's decision, in either direction
}

// Validate names every field that cannot be.
func (c GuardConfig) Validate() error {
	var errs []error
	if c.MaxPerDay < 0 || c.MaxPerDay > maxFlips {
		errs = append(errs, fmt.Errorf("the daily maximum is %d: it must be 0 to %d", c.MaxPerDay, maxFlips))
	}
	if c.Cooldown < 0 {
		errs = append(errs, fmt.Errorf("the cooldown is %s: it must not be negative", c.Cooldown))
	}
	if c.HumanLatch < 0 {
		errs = append(errs, fmt.Errorf("the latch is %s: it must not be negative", c.HumanLatch))
	}
	return errors.Join(errs...)
}

// maxFlips bounds the flips of a pool that are remembered.
const maxFlips = 100

// settle makes a guard that was read fit for now: what a clock that was set back
// has put into the future counts from now on, and no longer than settings say.
func (g Guard) settle(now time.Time, c GuardConfig) Guard {
	g.Until = earlier(g.Until, now.Add(c.Cooldown))
	g.LatchedUntil = earlier(g.LatchedUntil, now.Add(c.HumanLatch))
	g.Flips = slices.Clone(g.Flips[max(0, len(g.Flips)-maxFlips):])
	for n, at := range g.Flips {
		g.Flips[n] = earlier(at, now)
	}
	return g
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
