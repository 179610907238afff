package invariant

import (
	"fmt"
	"time"

	"headgate/proxy/admission"
)

// Shadow is the account of one pool. It belongs to the gate that it watches: its
// methods are called by that gate, under its lock, and by nobody else.
type Shadow struct {
	terms   admission.Terms
	running int
	depth   int
	lines   []line // who waits, one a class
}

// Where a task is, as far as the shadow knows; kept in its mark.
const (
	unseen uint8 = iota
	waiting
	running
	over
)

// New returns the shadow of a gate that is yet to be made.
func New() *Shadow { return &Shadow{lines: make([]line, len(admission.Classes()))} }

// Changed implements admission.Watcher.
func (s *Shadow) Changed(t admission.Terms) { s.terms = t }

// Saw implements admission.Watcher.
func (s *Shadow) Saw(now time.Time, t *admission.Ticket, step admission.Step) {
	m := t.Mark()
	switch step {
	case admission.StepQueued:
		if m.State == unseen {
			m.State, m.Since = waiting, now
			s.lines[t.Class()].join(t)
			s.depth++
		}
	case admission.StepGranted:
		if m.State != over { // its owner is done with it: it will never run
			s.leave(t)
			m.State = running
			s.running++
		}
	case admission.StepLeft:
		if m.State == waiting {
			s.leave(t)
		}
	case admission.StepReturned:
		if m.State == running {
			s.leave(t)
		}
	case admission.StepOver:
		s.leave(t)
	}
}

// leave takes a task out, wherever it is.
func (s *Shadow) leave(t *admission.Ticket) {
	m := t.Mark()
	switch m.State {
	case waiting:
		s.lines[t.Class()].leave(t)
		s.depth--
	case running:
		s.running--
	}
	m.State = over
}

// Disputes implements admission.Watcher.
func (s *Shadow) Disputes(now time.Time, c admission.Class, r admission.Reason) string {
	if r != admission.ReasonQueueAge && r != admission.ReasonQueueDepth {
		return ""
	}
	oldest := s.lines[c].oldest(now)
	paused := now.Before(s.terms.Paused)
	switch {
	case s.running < s.terms.Workers && !paused:
		return s.say("a permit was free", oldest)
	case s.wouldAdmit(oldest):
		return s.say("policy "+s.terms.Policy.Name()+" would have let it in", oldest)
	}
	return ""
}

// wouldAdmit is the article's rule, with all permits out.
func (s *Shadow) wouldAdmit(oldest time.Duration) bool {
	switch p := s.terms.Policy.(type) {
	case admission.Threshold:
		tooOld := oldest > p.MaxQueueAge
		tooMany := s.depth > p.DepthMultiple*s.terms.Workers
		return !tooOld && !tooMany
	case admission.None:
		return true
	default: // it has reasons of its own
		return false
	}
}

func (s *Shadow) say(what string, oldest time.Duration) string {
	return fmt.Sprintf("%s: %d of %d running, %d waiting, the oldest of its class for %s",
		what, s.running, s.terms.Workers, s.depth, oldest)
}
