package admission

import "time"

// Watcher watches a gate, for a second opinion on what it refuses. Its methods
// are called under the gate's lock, in the order in which things happen: they
// must be quick, must not block, and must not call the gate.
type Watcher interface {
	// Changed says what holds from now on: at first, and after each change.
	Changed(Terms)
	// Saw says what became of a task.
	Saw(now time.Time, t *Ticket, s Step)
	// Disputes is asked about each refusal at the door. It says what is wrong
	// with it, "" if nothing is.
	Disputes(now time.Time, c Class, r Reason) string
}

// Terms are what a Watcher cannot see for itself.
type Terms struct {
	Workers int
	Policy  Policy
	Paused  time.Time // until when no permit is handed out; zero: the pool is not paused
}

// Step is what becomes of a task that came in.
type Step uint8

// The steps of a task.
const (
	StepQueued   Step = iota // it waits
	StepGranted              // it has its permit
	StepLeft                 // it was to leave the queue, if it waits
	StepReturned             // its permit was to come back, if it has one
	StepOver                 // whatever it did, it is over
)

// Mark is a place on a ticket for the gate's Watcher, so that watching a task
// costs no allocation. The gate does not look at it. It may be used in the
// Watcher's methods only.
type Mark struct {
	State      uint8
	Since      time.Time
	Prev, Next *Ticket
}

// Over tells the gate's Watcher that the owner of t is done with it. It is for
// owners to call at the very end, apart from Release and after it: a Watcher
// that heard only of what Release does would lose the same permits as the gate.
func (g *Gate) Over(now time.Time, t *Ticket) {
	if g.watcher == nil {
		return
	}
	now = g.lock(now)
	defer g.mu.Unlock()
	g.sawLocked(now, t, StepOver)
}

func (g *Gate) sawLocked(now time.Time, t *Ticket, s Step) {
	if g.watcher != nil {
		g.watcher.Saw(now, t, s)
	}
}

func (g *Gate) termsLocked() {
	if g.watcher != nil {
		g.watcher.Changed(Terms{Workers: g.settings.Workers, Policy: g.settings.Policy, Paused: g.paused})
	}
}

// disputedLocked returns what the Watcher has against a refusal.
func (g *Gate) disputedLocked(now time.Time, c Class, r Reason) string {
	if g.watcher == nil {
		return ""
	}
	return g.watcher.Disputes(now, c, r)
}
