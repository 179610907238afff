package invariant_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// epoch is when every virtual clock starts.
var epoch = time.Date(2026, 1, 5, 9, 14, 0, 0, time.UTC)

// defaultThreshold is the rule with the article's own numbers.
var defaultThreshold = admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}

// mutant is what is wrong with a pool. The zero mutant is sound.
type mutant struct {
	policy     admission.Policy // that the gate really asks
	leak       bool             // now and then a permit does not come back
	staleQueue bool             // now and then who leaves stays queued
}

// thresholdChecker is a shadow that takes the gate's policy for the article's.
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

// end ends a running task. Its owner always says that it is over.
func (s *storm) end() {
	if len(s.running) == 0 {
		return
	}
	g := s.running[s.IntN(len(s.running))]
	s.running = without(s.running, g)
	if s.gate.Start(s.now, g.ticket).Reason == admission.ReasonNone && !(s.leak && s.IntN(10) == 0) {
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
