package admission

import "time"

// Monitor watches a gate, for a second opinion on what it refuses. Its methods
// are called under the gate's lock, in the order in which things happen: they
// must be quick, must not block, and must not call the gate.
type Monitor interface {
	// Changed says what holds from now on: at first, and after each change.
	OnLimits(Limits)
	// Saw says what became of a task.
	OnStep(now time.Time, t *Ticket, s Step)
	// Disputes is asked about each refusal at the door. It says what is wrong
	// with it, "" if nothing is.
	CheckRefusal(now time.Time, c Class, r Reason) string
}

// Limits are what a Monitor cannot see for itself.
type Limits struct {
	Workers     int
	Policy      Policy
	PausedUntil time.Time // until when no permit is handed out; zero: the pool is not paused
}

// Step is what becomes of a task that came in.
type Step uint8

// The steps of a task.
const (
	StepQueued   Step = iota // it waits
	StepGranted              // it has its permit
	StepDequeued             // it was to leave the queue, if it waits
	StepReleased             // its permit was to come back, if it has one
	StepFinished             // whatever it did, it is over
)

// Slot is a place on a ticket for the gate's Monitor, so that watching a task
// costs no allocation. The gate does not look at it. It may be used in the
// Monitor's methods only.
type Slot struct {
	State      uint8
	Since      time.Time
	Prev, Next *Ticket
}

// Finish tells the gate's Monitor that the owner of t is done with it. It is for
// owners to call at the very end, apart from Release and after it: a Monitor
// that heard only of what Release does would lose the same permits as the gate.
func (g *Gate) Finish(now time.Time, t *Ticket) {
	if g.monitor == nil {
		return
	}
	now = g.lock(now)
	defer g.mu.Unlock()
	g.notifyStepLocked(now, t, StepFinished)
}

func (g *Gate) notifyStepLocked(now time.Time, t *Ticket, s Step) {
	if g.monitor != nil {
		g.monitor.OnStep(now, t, s)
	}
}

func (g *Gate) notifyLimitsLocked() {
	if g.monitor != nil {
		g.monitor.OnLimits(Limits{Workers: g.settings.Workers, Policy: g.settings.Policy, PausedUntil: g.pausedUntil})
	}
}

// checkRefusalLocked returns what the Monitor has against a refusal.
func (g *Gate) checkRefusalLocked(now time.Time, c Class, r Reason) string {
	if g.monitor == nil {
		return ""
	}
	return g.monitor.CheckRefusal(now, c, r)
}
