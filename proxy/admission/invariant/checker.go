package invariant

import (
	"fmt"
	"time"

	"headgate/proxy/admission"
)

// Checker is the account of one pool. It belongs to the gate that it watches: its
// methods are called by that gate, under its lock, and by nobody else.
type Checker struct {
	limits  admission.Limits
	running int
	depth   int
	queues  []fifo // who waits, one a class
}

// Where a task is, as far as the shadow knows; kept in its mark.
const (
	stateNew uint8 = iota
	stateWaiting
	stateRunning
	stateFinished
)

// New returns the shadow of a gate that is yet to be made.
func New() *Checker { return &Checker{queues: make([]fifo, len(admission.Classes()))} }

// OnLimits implements admission.Monitor.
func (s *Checker) OnLimits(t admission.Limits) { s.limits = t }

// OnStep implements admission.Monitor.
func (s *Checker) OnStep(now time.Time, t *admission.Ticket, step admission.Step) {
	m := t.Slot()
	switch step {
	case admission.StepQueued:
		if m.State == stateNew {
			m.State, m.Since = stateWaiting, now
			s.queues[t.Class()].push(t)
			s.depth++
		}
	case admission.StepGranted:
		if m.State != stateFinished { // its owner is done with it: it will never run
			s.remove(t)
			m.State = stateRunning
			s.running++
		}
	case admission.StepDequeued:
		if m.State == stateWaiting {
			s.remove(t)
		}
	case admission.StepReleased:
		if m.State == stateRunning {
			s.remove(t)
		}
	case admission.StepFinished:
		s.remove(t)
	}
}

// remove takes a task out, wherever it is.
func (s *Checker) remove(t *admission.Ticket) {
	m := t.Slot()
	switch m.State {
	case stateWaiting:
		s.queues[t.Class()].remove(t)
		s.depth--
	case stateRunning:
		s.running--
	}
	m.State = stateFinished
}

// CheckRefusal implements admission.Monitor.
func (s *Checker) CheckRefusal(now time.Time, c admission.Class, r admission.Reason) string {
	if r != admission.ReasonQueueAge && r != admission.ReasonQueueDepth {
		return ""
	}
	oldest := s.queues[c].oldestAge(now)
	paused := now.Before(s.limits.PausedUntil)
	switch {
	case s.running < s.limits.Workers && !paused:
		return s.violation("a permit was free", oldest)
	case s.wouldAdmit(oldest):
		return s.violation("policy "+s.limits.Policy.Name()+" would have let it in", oldest)
	}
	return ""
}

// wouldAdmit is the article's rule, with all permits out.
func (s *Checker) wouldAdmit(oldest time.Duration) bool {
	switch p := s.limits.Policy.(type) {
	case admission.Threshold:
		tooOld := oldest > p.MaxQueueAge
		tooMany := s.depth > p.DepthMultiple*s.limits.Workers
		return !tooOld && !tooMany
	case admission.None:
		return true
	default: // it has reasons of its own
		return false
	}
}

func (s *Checker) violation(what string, oldest time.Duration) string {
	return fmt.Sprintf("%s: %d of %d running, %d waiting, the oldest of its class for %s",
		what, s.running, s.limits.Workers, s.depth, oldest)
}

// fifo is who waits of one class, first come first, linked through their marks:
// leaving costs the same wherever one stands.
type fifo struct{ first, last *admission.Ticket }

func (l *fifo) push(t *admission.Ticket) {
	m := t.Slot()
	m.Prev, m.Next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.Slot().Next = t
	}
	l.last = t
}

func (l *fifo) remove(t *admission.Ticket) {
	m := t.Slot()
	if m.Prev == nil {
		l.first = m.Next
	} else {
		m.Prev.Slot().Next = m.Next
	}
	if m.Next == nil {
		l.last = m.Prev
	} else {
		m.Next.Slot().Prev = m.Prev
	}
	m.Prev, m.Next = nil, nil
}

// oldestAge returns for how long the first has waited, 0 if nobody waits.
func (l *fifo) oldestAge(now time.Time) time.Duration {
	if l.first == nil {
		return 0
	}
	return now.Sub(l.first.Slot().Since)
}
