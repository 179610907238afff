package invariant_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// epoch is when every virtual clock starts.
var epoch = time.Date(2026, 1, 5, 9, 14, 0, 0, time.UTC)

// defaultThreshold is the threshold policy with the default limits.
var defaultThreshold = admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}

// mutant is what is wrong with a pool. The zero mutant is sound.
type mutant struct {
	policy     admission.Policy // that the gate really asks
	leak       bool             // now and then a permit does not come back
	staleQueue bool             // some cancelled tasks stay queued
}

// thresholdChecker is a Checker that assumes that the gate's policy is the default threshold policy.
type thresholdChecker struct{ *invariant.Checker }

func (b thresholdChecker) OnLimits(t admission.Limits) {
	t.Policy = defaultThreshold
	b.Checker.OnLimits(t)
}

// stormTask is a task of a storm.
type stormTask struct {
	storm  *storm
	ticket *admission.Ticket
}

// Done moves the task on.
func (g *stormTask) Done(r admission.Refusal) {
	g.storm.waiting = without(g.storm.waiting, g)
	if r.Reason == admission.ReasonNone {
		g.storm.running = append(g.storm.running, g)
	} else {
		g.storm.gate.Finish(g.storm.now, g.ticket)
	}
}

func without(all []*stormTask, g *stormTask) []*stormTask {
	return slices.DeleteFunc(all, func(o *stormTask) bool { return o == g })
}

// storm does random things to a gate that is watched.
type storm struct {
	*rand.Rand
	mutant
	gate             *admission.Gate
	now              time.Time
	waiting, running []*stormTask
	refused          map[admission.Reason]int
	violations       []string
}

func newStorm(seed uint64, m mutant) *storm {
	s := &storm{Rand: rand.New(rand.NewPCG(seed, 7)), mutant: m, now: epoch, refused: map[admission.Reason]int{}}
	var w admission.Monitor = invariant.New()
	if m.policy == nil {
		s.policy = defaultThreshold
	} else {
		w = thresholdChecker{invariant.New()}
	}
	g, err := admission.New(s.config(1+s.IntN(4), w))
	if err != nil {
		panic(err)
	}
	s.gate = g
	return s
}

func (s *storm) config(workers int, w admission.Monitor) admission.Config {
	return admission.Config{Workers: workers, Policy: s.policy, QueueLimit: 20, AssumedService: 5 * time.Second, Monitor: w}
}

// run takes n steps, or fewer if a refusal is disputed.
func (s *storm) run(n int) {
	for ; n > 0 && len(s.violations) == 0; n-- {
		s.step()
	}
}

func (s *storm) step() {
	s.now = s.now.Add(time.Duration(s.IntN(4)) * 500 * time.Millisecond) // so that limits are met exactly
	switch n := s.IntN(100); {
	case n < 50:
		s.offer()
	case n < 70:
		s.end()
	case n < 80:
		s.leave()
	case n < 90:
		s.expire()
	case n < 93:
		if err := s.gate.Reconfigure(s.now, s.config(1+s.IntN(4), nil)); err != nil {
			panic(err)
		}
	case n < 96:
		s.gate.SetMode(s.now, admission.Modes()[s.IntN(3)])
	case n < 97:
		s.gate.Pause(s.now, s.now.Add(time.Duration(s.IntN(40))*time.Second))
	case n < 98:
		s.gate.Resume(s.now)
	default:
		s.gate.DropOverdue(s.now)
	}
}

func (s *storm) offer() {
	g := &stormTask{storm: s}
	task := admission.Task{Class: admission.Class(s.IntN(2)), Waiter: g}
	if s.IntN(2) == 0 {
		task.Deadline = s.now.Add(time.Duration(s.IntN(60)) * time.Second)
	}
	d := s.gate.Offer(s.now, task)
	s.refused[d.Reason]++
	if d.Violation != "" {
		s.violations = append(s.violations, d.Reason.String()+": "+d.Violation)
	}
	g.ticket = d.Ticket
	switch {
	case d.Waiting:
		s.waiting = append(s.waiting, g)
	case d.Ticket != nil:
		s.running = append(s.running, g)
	}
}

// end ends a running task. Its owner always finishes it.
func (s *storm) end() {
	if len(s.running) == 0 {
		return
	}
	g := s.running[s.IntN(len(s.running))]
	s.running = without(s.running, g)
	if s.gate.CheckDispatch(s.now, g.ticket).Reason == admission.ReasonNone && !(s.leak && s.IntN(10) == 0) {
		s.gate.Release(s.now, g.ticket, admission.Served)
	}
	s.gate.Finish(s.now, g.ticket)
}

func (s *storm) leave() {
	if len(s.waiting) == 0 {
		return
	}
	g := s.waiting[s.IntN(len(s.waiting))]
	if s.staleQueue && s.IntN(4) == 0 || s.gate.Cancel(s.now, g.ticket) {
		s.waiting = without(s.waiting, g)
		s.gate.Finish(s.now, g.ticket)
	}
}

func (s *storm) expire() {
	if len(s.waiting) == 0 {
		return
	}
	g := s.waiting[s.IntN(len(s.waiting))]
	if s.gate.Expire(s.now, g.ticket).Reason != admission.ReasonNone {
		s.waiting = without(s.waiting, g)
		s.gate.Finish(s.now, g.ticket)
	}
}

// waiterChan is a waiter for goroutines.
type waiterChan chan admission.Refusal

func (m waiterChan) Done(r admission.Refusal) { m <- r }

// TestNoViolationUnderConcurrency: tasks come, run, leave and expire from many
// goroutines while settings change. The Checker sees it in the gate's own
// order, so that not one refusal looks wrong.
func TestNoViolationUnderConcurrency(t *testing.T) {
	const goroutines, rounds = 48, 300
	g, err := admission.New(admission.Config{
		Workers: 3, Policy: admission.Threshold{MaxQueueAge: 300, DepthMultiple: 2}, QueueLimit: 40,
		AssumedService: time.Second, Monitor: invariant.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &raceTest{T: t, gate: g}
	var group sync.WaitGroup
	for id := range goroutines {
		group.Go(func() {
			for round := 0; round < rounds || !r.exercised(); round++ {
				r.task(id + round)
			}
		})
	}
	stop := r.reconfigureLoop()
	group.Wait()
	stop()
}

// raceTest is a gate with a clock of which each look takes a nanosecond.
type raceTest struct {
	*testing.T
	gate                *admission.Gate
	ns                  atomic.Int64
	refused, dispatched atomic.Int64
}

// exercised reports whether tasks were refused and tasks ran.
func (r *raceTest) exercised() bool { return r.refused.Load() > 0 && r.dispatched.Load() > 0 }

func (r *raceTest) now() time.Time { return epoch.Add(time.Duration(r.ns.Add(1))) }

// task lives one task's life.
func (r *raceTest) task(kind int) {
	m := make(waiterChan, 1)
	task := admission.Task{Waiter: m, Class: admission.Class(kind % 2)}
	if kind%5 == 0 {
		task.Deadline = r.now().Add(100)
	}
	d := r.gate.Offer(r.now(), task)
	if d.Violation != "" {
		r.Errorf("%s: %s", d.Reason, d.Violation)
	}
	if d.Reason == admission.ReasonQueueAge || d.Reason == admission.ReasonQueueDepth {
		r.refused.Add(1)
	}
	if d.Ticket == nil {
		return
	}
	defer func() {
		r.gate.Release(r.now(), d.Ticket, admission.Served)
		r.gate.Finish(r.now(), d.Ticket)
	}()
	if d.Waiting && !r.wait(kind, m, d.Ticket) {
		return
	}
	if r.gate.CheckDispatch(r.now(), d.Ticket).Reason == admission.ReasonNone {
		r.dispatched.Add(1)
		runtime.Gosched() // others arrive while the permit is taken
	}
}

// wait waits for a permit, not always to the end.
func (r *raceTest) wait(kind int, m waiterChan, t *admission.Ticket) bool {
	switch kind % 7 {
	case 0:
		if r.gate.Cancel(r.now(), t) {
			return false
		}
	case 1:
		if r.gate.Expire(r.now(), t).Reason != admission.ReasonNone {
			return false
		}
	}
	return (<-m).Reason == admission.ReasonNone
}

// reconfigureLoop changes workers, mode and pause all the time, until the returned
// function is called; that leaves a gate that grants.
func (r *raceTest) reconfigureLoop() (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				r.gate.Resume(r.now())
				return
			default:
			}
			r.gate.SetMode(r.now(), admission.Modes()[i%4%3])
			now := r.now()
			r.gate.Pause(now, now.Add(time.Duration(i%50)))
			c := admission.Config{
				Workers: 1 + i%3, Policy: admission.Threshold{MaxQueueAge: 300, DepthMultiple: 1 + i%2},
				QueueLimit: 40, AssumedService: time.Second,
			}
			if err := r.gate.Reconfigure(r.now(), c); err != nil {
				r.Error(err)
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// TestNoViolationOfCorrectGate: whatever happens to a sound pool, and whatever it
// refuses for, the Checker agrees.
func TestNoViolationOfCorrectGate(t *testing.T) {
	refused := map[admission.Reason]int{}
	for seed := range uint64(60) {
		s := newStorm(seed, mutant{})
		s.run(5000)
		if len(s.violations) > 0 {
			t.Fatalf("seed %d: %v", seed, s.violations)
		}
		for r, n := range s.refused {
			refused[r] += n
		}
	}
	for _, r := range []admission.Reason{admission.ReasonQueueAge, admission.ReasonQueueDepth, admission.ReasonDeadlinePassed, admission.ReasonMemory} {
		if refused[r] == 0 {
			t.Errorf("no task was refused for %s: %v", r, refused)
		}
	}
}

// TestViolationOfMutants: each fault that refuses work is found, and reported in
// words that name it.
func TestViolationOfMutants(t *testing.T) {
	for name, tt := range map[string]struct {
		mutant
		want string
	}{
		"it refuses while idle":         {mutant{policy: randomRefusal{}}, "queue_depth: a permit was free"},
		"age at the limit is refused":   {mutant{policy: wrongAgeLimit{25*time.Second - time.Millisecond}}, "queue_age: policy threshold would have admitted it"},
		"depth at the limit is refused": {mutant{policy: wrongDepthLimit{}}, "queue_depth: policy threshold would have admitted it"},
		"ages of classes are mixed":     {mutant{policy: mixedClasses{}}, "queue_age: policy threshold would have admitted it"},
		"an age is never reset":         {mutant{policy: &stuckAge{}}, "queue_age: "},
		"a permit leaks":                {mutant{leak: true}, ": a permit was free"},
		"a cancelled task stays queued": {mutant{staleQueue: true}, ": policy threshold would have admitted it"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				s := newStorm(seed, tt.mutant)
				s.run(5000)
				if len(s.violations) > 0 && strings.Contains(s.violations[0], tt.want) {
					return
				}
			}
			t.Errorf("no violation with %q", tt.want)
		})
	}
}

// randomRefusal now and then refuses whatever the state is.
type randomRefusal struct{ admission.Threshold }

func (randomRefusal) Admit(v admission.View, t admission.Task) admission.Verdict {
	if v.Now.UnixMilli()%16 == 0 {
		return admission.Verdict{Reason: admission.ReasonQueueDepth}
	}
	return defaultThreshold.Admit(v, t)
}

// wrongAgeLimit is the threshold policy with another limit on age.
type wrongAgeLimit struct{ limit time.Duration }

func (wrongAgeLimit) Name() string { return "threshold" }

func (p wrongAgeLimit) Admit(v admission.View, t admission.Task) admission.Verdict {
	return admission.Threshold{MaxQueueAge: p.limit, DepthMultiple: 2}.Admit(v, t)
}

func (wrongAgeLimit) Dispatch(v admission.View, t admission.Task) admission.Reason {
	return defaultThreshold.Dispatch(v, t)
}

// wrongDepthLimit takes "at least" for "more than".
type wrongDepthLimit struct{ admission.Threshold }

func (wrongDepthLimit) Admit(v admission.View, t admission.Task) admission.Verdict {
	if v.InFlight >= v.Workers && v.Depth >= 2*v.Workers {
		return admission.Verdict{Reason: admission.ReasonQueueDepth}
	}
	return defaultThreshold.Admit(v, t)
}

// mixedClasses lets old work of one class refuse the other.
type mixedClasses struct{ admission.Threshold }

func (mixedClasses) Admit(v admission.View, t admission.Task) admission.Verdict {
	if verdict := defaultThreshold.Admit(v, t); verdict.Reason != admission.ReasonNone {
		return verdict
	}
	t.Class = 1 - t.Class
	return defaultThreshold.Admit(v, t)
}

// stuckAge remembers the greatest age that it has seen, for ever.
type stuckAge struct {
	admission.Threshold
	age time.Duration
}

func (p *stuckAge) Admit(v admission.View, t admission.Task) admission.Verdict {
	if p.age = max(p.age, v.OldestAge(t.Class)); p.age > defaultThreshold.MaxQueueAge {
		return admission.Verdict{Reason: admission.ReasonQueueAge}
	}
	return defaultThreshold.Admit(v, t)
}
