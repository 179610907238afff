package admission_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// These tests show what the driver finds. Each mutant below is the gate with one
// fault; a driver that misses it would miss the same fault in the gate.

// mutant is a gate with a wrong policy, or one behind a shim.
type mutant struct {
	policy    admission.Policy
	shim      func(subject) subject
	wantError string // part of what the driver must say
}

func mutants() map[string]mutant {
	return map[string]mutant{
		"age at the limit is refused":    {policy: agePolicy{limit: 25*time.Second - 1}, wantError: "offer: answered"},
		"age over the limit is admitted": {policy: agePolicy{limit: 25*time.Second + 1}, wantError: "offer: answered"},
		"depth at the limit is refused":  {policy: depthPolicy{}, wantError: "offer: answered"},
		"ages of classes are mixed":      {policy: mixedClassesPolicy{}, wantError: "offer: answered"},
		"late work is dispatched":        {policy: noDispatchCheckPolicy{}, wantError: "waiters received"},

		"observe acts":                  {shim: func(g subject) subject { return wrongModeEnforcer{g, admission.Observe} }, wantError: "offer: answered"},
		"pass-through acts":             {shim: func(g subject) subject { return wrongModeEnforcer{g, admission.PassThrough} }, wantError: "offer: answered"},
		"a permit leaks":                {shim: func(g subject) subject { return &leakyRelease{subject: g} }, wantError: "release: "},
		"a second release counts":       {shim: func(g subject) subject { return doubleRelease{g} }, wantError: "release: answered"},
		"one permit too many":           {shim: func(g subject) subject { return extraPermit{g} }, wantError: "resize: "},
		"last in, first out":            {shim: func(g subject) subject { return lifo{g, new([]*lifoWaiter)} }, wantError: "waiters received"},
		"a waiter is not called":        {shim: func(g subject) subject { return repeatDone{g, 0} }, wantError: "waiters received"},
		"a waiter is called twice":      {shim: func(g subject) subject { return repeatDone{g, 2} }, wantError: "waiters received"},
		"a cancelled task stays queued": {shim: func(g subject) subject { return ignoreCancel{g} }, wantError: "leave: "},
		"an expired task stays queued":  {shim: func(g subject) subject { return ignoreExpiry{g} }, wantError: "expire: answered"},
		"a draining gate admits":        {shim: func(g subject) subject { return ignoreDrain{g} }, wantError: "drain: "},
	}
}

func TestOracleCatchesMutants(t *testing.T) {
	for name, m := range mutants() {
		t.Run(name, func(t *testing.T) {
			err := m.drive()
			if err == nil || !strings.Contains(err.Error(), m.wantError) {
				t.Fatalf("the driver reported %v, want something with %q", err, m.wantError)
			}
		})
	}
}

// drive returns the first complaint about the mutant.
func (m mutant) drive() error {
	r := thresholdRule(25*time.Second, 2)
	if m.policy != nil {
		r.policy = m.policy
	}
	build := newRealGate
	if m.shim != nil {
		build = func(c admission.Config) subject { return m.shim(newRealGate(c)) }
	}
	for seed := range uint64(500) {
		if err := newDriver(newRandSource(seed), []rule{r}, build).run(maxStepsPerGate); err != nil {
			return err
		}
	}
	return nil
}

// TestDriverChecksGrantOrder shows that the order of grants is checked without
// the oracle's help.
func TestDriverChecksGrantOrder(t *testing.T) {
	d := newDriver(newRandSource(1), modelRules(), newRealGate)
	for _, seq := range []int{0, 1, 3} {
		d.grant(&job{seq: seq})
	}
	if d.orderError != "" {
		t.Fatalf("complained about an order that is right: %s", d.orderError)
	}
	d.grant(&job{seq: 2})
	if want := "task 2 got its permit after task 3"; d.orderError != want {
		t.Fatalf("reported %q, want %q", d.orderError, want)
	}
}

// agePolicy is the threshold policy with another limit on age.
type agePolicy struct{ limit time.Duration }

func (agePolicy) Name() string { return "threshold" }

func (p agePolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	return admission.Threshold{MaxQueueAge: p.limit, DepthMultiple: 2}.Admit(v, t)
}

func (agePolicy) Dispatch(v admission.View, t admission.Task) admission.Reason {
	return defaultThreshold.Dispatch(v, t)
}

// depthPolicy takes "at least" for "more than".
type depthPolicy struct{ admission.Threshold }

func (depthPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	verdict := defaultThreshold.Admit(v, t)
	if verdict.Reason == admission.ReasonNone && v.InFlight >= v.Workers && v.Depth >= 2*v.Workers {
		verdict.Reason = admission.ReasonQueueDepth
	}
	return verdict
}

// mixedClassesPolicy lets old work of one class refuse the other.
type mixedClassesPolicy struct{ admission.Threshold }

func (mixedClassesPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	if verdict := defaultThreshold.Admit(v, t); verdict.Reason != admission.ReasonNone {
		return verdict
	}
	t.Class = 1 - t.Class
	return defaultThreshold.Admit(v, t)
}

// noDispatchCheckPolicy checks deadlines on arrival only.
type noDispatchCheckPolicy struct{ admission.Threshold }

func (noDispatchCheckPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	return defaultThreshold.Admit(v, t)
}

func (noDispatchCheckPolicy) Dispatch(admission.View, admission.Task) admission.Reason {
	return admission.ReasonNone
}

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

// ignoreCancel keeps cancelled tasks queued.
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
