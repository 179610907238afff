package invariant

import (
	"fmt"
	"time"

	"headgate/proxy/admission"
)

var _ admission.Monitor = (*Checker)(nil)

// Checker is the account of one pool. It belongs to the gate that it monitors: only
// that gate calls its methods, under its lock.
type Checker struct {
	limits  admission.Limits
	running int
	depth   int
	queues  []fifo // waiting tasks, by class
}

// States of a task in the account, kept in its slot.
const (
	stateNew uint8 = iota
	stateWaiting
	stateRunning
	stateFinished
)

// New returns the Checker for a gate that is yet to be made.
func New() *Checker { return &Checker{queues: make([]fifo, len(admission.Classes()))} }

// OnLimits records the gate's current limits.
func (c *Checker) OnLimits(l admission.Limits) { c.limits = l }

// OnStep records a step of a task. Steps out of turn, such as a release of a task
// that does not run, change nothing.
func (c *Checker) OnStep(now time.Time, t *admission.Ticket, step admission.Step) {
	slot := t.Slot()
	switch step {
	case admission.StepQueued:
		if slot.State == stateNew {
			slot.State, slot.Since = stateWaiting, now
			c.queues[t.Class()].push(t)
			c.depth++
		}
	case admission.StepGranted:
		if slot.State != stateFinished { // a task that its owner has finished never runs
			c.remove(t)
			slot.State = stateRunning
			c.running++
		}
	case admission.StepDequeued:
		if slot.State == stateWaiting {
			c.remove(t)
		}
	case admission.StepReleased:
		if slot.State == stateRunning {
			c.remove(t)
		}
	case admission.StepFinished:
		c.remove(t)
	}
}

// remove takes a task out of the account, whatever its state.
func (c *Checker) remove(t *admission.Ticket) {
	slot := t.Slot()
	switch slot.State {
	case stateWaiting:
		c.queues[t.Class()].remove(t)
		c.depth--
	case stateRunning:
		c.running--
	}
	slot.State = stateFinished
}

// CheckRefusal returns why a refusal is a violation, "" if it is not one.
func (c *Checker) CheckRefusal(now time.Time, class admission.Class, r admission.Reason) string {
	if r != admission.ReasonQueueAge && r != admission.ReasonQueueDepth {
		return ""
	}
	var oldest time.Duration
	if first := c.queues[class].first; first != nil {
		oldest = now.Sub(first.Slot().Since)
	}
	what := ""
	switch paused := now.Before(c.limits.PausedUntil); {
	case c.running < c.limits.Workers && !paused:
		what = "a permit was free"
	case c.wouldAdmit(oldest):
		what = "policy " + c.limits.Policy.Name() + " would have admitted it"
	default:
		return ""
	}
	return fmt.Sprintf("%s: %d of %d running, %d waiting, the oldest of its class for %s",
		what, c.running, c.limits.Workers, c.depth, oldest)
}

// wouldAdmit applies the policy's rule, with all permits out.
func (c *Checker) wouldAdmit(oldest time.Duration) bool {
	switch p := c.limits.Policy.(type) {
	case admission.Threshold:
		tooOld := oldest > p.MaxQueueAge
		tooMany := c.depth > p.DepthMultiple*c.limits.Workers
		return !tooOld && !tooMany
	case admission.None:
		return true
	default: // a policy whose rule is not written down here
		return false
	}
}

// fifo holds the waiting tasks of one class in order, linked through their slots,
// so that removal costs the same at every position.
type fifo struct{ first, last *admission.Ticket }

func (l *fifo) push(t *admission.Ticket) {
	slot := t.Slot()
	slot.Prev, slot.Next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.Slot().Next = t
	}
	l.last = t
}

func (l *fifo) remove(t *admission.Ticket) {
	slot := t.Slot()
	if slot.Prev == nil {
		l.first = slot.Next
	} else {
		slot.Prev.Slot().Next = slot.Next
	}
	if slot.Next == nil {
		l.last = slot.Prev
	} else {
		slot.Next.Slot().Prev = slot.Prev
	}
	slot.Prev, slot.Next = nil, nil
}
