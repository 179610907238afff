package admission

import "time"

// Monitor observes a gate and checks its refusals independently. Its methods are
// called under the gate's lock, in the order of events: they must be quick, must
// not block, and must not call the gate.
type Monitor interface {
	// OnLimits reports the current limits: initially, and after each change.
	OnLimits(Limits)
	// OnStep reports a step of a task.
	OnStep(now time.Time, t *Ticket, s Step)
	// CheckRefusal is called for each refusal of an arriving task by the policy. It
	// returns the objection to it, "" if there is none.
	CheckRefusal(now time.Time, c Class, r Reason) string
}

// Limits are the settings that a Monitor cannot observe.
type Limits struct {
	Workers     int
	Policy      Policy
	PausedUntil time.Time // no permit is granted before; zero: the pool is not paused
}

// Step is an event in the life of an admitted task.
type Step uint8

// The steps of a task.
const (
	StepQueued   Step = iota // it waits
	StepGranted              // it has its permit
	StepDequeued             // it leaves the queue, if it waits
	StepReleased             // it returns its permit, if it has one
	StepFinished             // its owner is done with it
)

// Slot is space on a ticket for the gate's Monitor, so that monitoring a task
// costs no allocation. The gate does not read it. It may be used in the Monitor's
// methods only.
type Slot struct {
	State      uint8
	Since      time.Time
	Prev, Next *Ticket
}

// Finish notifies the gate's Monitor that the owner of t is done with it, and changes
// nothing else; Release returns the permit. Owners call Finish at the very end, after
// Release: a Monitor that learnt only of calls of Release would miss the same lost
// permits as the gate.
func (g *Gate) Finish(now time.Time, t *Ticket) {
	if g.monitor == nil {
		return
	}
	now = g.lock(now)
	defer g.unlock()
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

// checkRefusalLocked returns the Monitor's objection to a refusal.
func (g *Gate) checkRefusalLocked(now time.Time, c Class, r Reason) string {
	if g.monitor == nil {
		return ""
	}
	return g.monitor.CheckRefusal(now, c, r)
}
