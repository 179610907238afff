package admission_test

import (
	"time"

	"headgate/proxy/admission"
)

// wrongModeEnforcer enforces in a mode that should not.
type wrongModeEnforcer struct {
	subject
	mode admission.Mode
}

func (s wrongModeEnforcer) Offer(now time.Time, t admission.Task) admission.Decision {
	if s.Snapshot(now).Mode != s.mode {
		return s.subject.Offer(now, t)
	}
	s.SetMode(now, admission.Enforce)
	defer s.SetMode(now, s.mode)
	return s.subject.Offer(now, t)
}

// leakyRelease forgets every tenth release.
type leakyRelease struct {
	subject
	n int
}

func (s *leakyRelease) Release(now time.Time, t *admission.Ticket, e admission.Sample) bool {
	if s.n++; s.n%10 == 0 {
		return true
	}
	return s.subject.Release(now, t, e)
}

// doubleRelease takes every release for the first.
type doubleRelease struct{ subject }

func (s doubleRelease) Release(now time.Time, t *admission.Ticket, e admission.Sample) bool {
	s.subject.Release(now, t, e)
	return true
}

// extraPermit adds a permit of its own.
type extraPermit struct{ subject }

func (s extraPermit) Resize(now time.Time, workers int) error {
	return s.subject.Resize(now, workers+1)
}

// repeatDone tells waiters a number of times that is not one.
type repeatDone struct {
	subject
	times int
}

type repeatDoneWaiter struct {
	admission.Waiter
	times int
}

func (s repeatDone) Offer(now time.Time, t admission.Task) admission.Decision {
	t.Waiter = repeatDoneWaiter{t.Waiter, s.times}
	return s.subject.Offer(now, t)
}

func (r repeatDoneWaiter) Done(refusal admission.Refusal) {
	for range r.times {
		r.Waiter.Done(refusal)
	}
}

// lifo tells the newest waiter what the oldest one should hear.
type lifo struct {
	subject
	waiting *[]*lifoWaiter
}

type lifoWaiter struct {
	admission.Waiter
	all *[]*lifoWaiter
}

func (s lifo) Offer(now time.Time, t admission.Task) admission.Decision {
	w := &lifoWaiter{t.Waiter, s.waiting}
	t.Waiter = w
	d := s.subject.Offer(now, t)
	if d.Waiting {
		*s.waiting = append(*s.waiting, w)
	}
	return d
}

func (w *lifoWaiter) Done(r admission.Refusal) {
	last := len(*w.all) - 1
	newest := (*w.all)[last]
	*w.all = (*w.all)[:last]
	newest.Waiter.Done(r)
}

// ignoreCancel does not let go of who leaves.
type ignoreCancel struct{ subject }

func (ignoreCancel) Cancel(_ time.Time, t *admission.Ticket) bool { return t.Queued() == 0 }

// ignoreExpiry never lets a deadline end a wait.
type ignoreExpiry struct{ subject }

func (ignoreExpiry) Expire(time.Time, *admission.Ticket) admission.Refusal {
	return admission.Refusal{}
}

// ignoreDrain does not close when it drains.
type ignoreDrain struct{ subject }

func (ignoreDrain) Drain(time.Time) {}
