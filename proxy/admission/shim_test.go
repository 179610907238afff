package admission_test

import (
	"time"

	"headgate/proxy/admission"
)

// enforcer enforces in a mode that should not.
type enforcer struct {
	subject
	mode admission.Mode
}

func (s enforcer) Offer(now time.Time, t admission.Task) admission.Decision {
	if s.Snapshot(now).Mode != s.mode {
		return s.subject.Offer(now, t)
	}
	s.SetMode(now, admission.Enforce)
	defer s.SetMode(now, s.mode)
	return s.subject.Offer(now, t)
}

// leaky forgets every tenth release.
type leaky struct {
	subject
	n int
}

func (s *leaky) Release(now time.Time, t *admission.Ticket, e admission.Ending) bool {
	if s.n++; s.n%10 == 0 {
		return true
	}
	return s.subject.Release(now, t, e)
}

// agreeable takes every release for the first.
type agreeable struct{ subject }

func (s agreeable) Release(now time.Time, t *admission.Ticket, e admission.Ending) bool {
	s.subject.Release(now, t, e)
	return true
}

// generous adds a permit of its own.
type generous struct{ subject }

func (s generous) Resize(now time.Time, workers int) error {
	return s.subject.Resize(now, workers+1)
}

// relay tells waiters a number of times that is not one.
type relay struct {
	subject
	times int
}

type relayed struct {
	admission.Waiter
	times int
}

func (s relay) Offer(now time.Time, t admission.Task) admission.Decision {
	t.Waiter = relayed{t.Waiter, s.times}
	return s.subject.Offer(now, t)
}

func (r relayed) Settled(refusal admission.Refusal) {
	for range r.times {
		r.Waiter.Settled(refusal)
	}
}

// lifo tells the newest waiter what the oldest one should hear.
type lifo struct {
	subject
	waiting *[]*swapped
}

type swapped struct {
	admission.Waiter
	all *[]*swapped
}

func (s lifo) Offer(now time.Time, t admission.Task) admission.Decision {
	w := &swapped{t.Waiter, s.waiting}
	t.Waiter = w
	d := s.subject.Offer(now, t)
	if d.Waiting {
		*s.waiting = append(*s.waiting, w)
	}
	return d
}

func (w *swapped) Settled(r admission.Refusal) {
	last := len(*w.all) - 1
	newest := (*w.all)[last]
	*w.all = (*w.all)[:last]
	newest.Waiter.Settled(r)
}

// deaf does not let go of who leaves.
type deaf struct{ subject }

func (deaf) Leave(_ time.Time, t *admission.Ticket) bool { return t.Queued() == 0 }

// patient never lets a deadline end a wait.
type patient struct{ subject }

func (patient) Expire(time.Time, *admission.Ticket) admission.Refusal { return admission.Refusal{} }

// ajar does not close when it drains.
type ajar struct{ subject }

func (ajar) Drain(time.Time) {}
