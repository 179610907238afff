package admission_test

import (
	"slices"
	"time"

	"headgate/proxy/admission"
)

// The oracle is the gate once more, written as plainly as possible: slices, linear
// scans, no sharing of code with the package under test. It was written from
// the threshold policy ("refuse when the oldest queued task is older than
// 25 s, or when in flight equals workers and depth is more than 2 x workers")
// and from the documentation of the package, before gate.go was read.

// job is a task as the oracle and the driver know it.
type job struct {
	seq           int
	class         admission.Class
	deadline      time.Time
	arrived       time.Time
	granted       time.Time
	grandfathered bool // came in under another mode
	ticket        *admission.Ticket
}

// pastDeadline says whether the job is of no use any more at the given time. The
// deadline itself is too late: whoever sets a timer on it finds it so.
func (j *job) pastDeadline(now time.Time) bool {
	return !j.deadline.IsZero() && !now.Before(j.deadline)
}

// rule pairs a policy with the same policy in the oracle's words. Whoever adds
// a policy adds a rule, and has the driver of driver_test.go check it.
type rule struct {
	policy   admission.Policy
	admit    func(*oracle, *job) admission.Reason
	dispatch func(*oracle, *job) admission.Reason
}

// noneRule is the policy that admits every task.
func noneRule() rule {
	yes := func(*oracle, *job) admission.Reason { return admission.ReasonNone }
	return rule{policy: admission.None{}, admit: yes, dispatch: yes}
}

// thresholdRule is the threshold policy with its two numbers left open.
func thresholdRule(age time.Duration, multiple int) rule {
	late := func(o *oracle, j *job) admission.Reason {
		if j.pastDeadline(o.now) {
			return admission.ReasonDeadlinePassed
		}
		return admission.ReasonNone
	}
	return rule{
		policy: admission.Threshold{MaxQueueAge: age, DepthMultiple: multiple},
		admit: func(o *oracle, j *job) admission.Reason {
			switch {
			case late(o, j) != admission.ReasonNone:
				return admission.ReasonDeadlinePassed
			case o.oldest(func(w *job) bool { return w.class == j.class }) > age:
				return admission.ReasonQueueAge
			case o.full() && len(o.waiting) > multiple*o.workers:
				return admission.ReasonQueueDepth
			}
			return admission.ReasonNone
		},
		dispatch: late,
	}
}

// oracle is the state of a gate: waiting and running jobs, oldest first.
type oracle struct {
	rule         rule
	mode         admission.Mode
	workers      int
	limit        int
	draining     bool
	bypassing    bool      // for pass-through: the policy is not asked any more
	pausedUntil  time.Time // no permit is granted before, zero if the pool is not paused
	pauseWakeups []wakeup  // what waiters heard because a pause had come to its end
	now          time.Time
	waiting      []*job
	running      []*job
}

// wakeup is what one waiter received.
type wakeup struct {
	seq    int
	reason admission.Reason
}

// answer is what one call on the gate returned, as far as the oracle can say.
type answer struct {
	reason, would admission.Reason
	waiting       bool
	ticket        bool
	ok            bool
	mode          admission.Mode
}

// advanceTo moves the oracle's clock, which never runs backwards. A pause that is over
// ends before anything else is decided.
func (o *oracle) advanceTo(at time.Time) {
	if at.After(o.now) {
		o.now = at
	}
	if !o.pausedUntil.IsZero() && !o.now.Before(o.pausedUntil) {
		o.pausedUntil = time.Time{}
		o.pauseWakeups = o.grantFree()
	}
}

// full reports whether an arriving job has to wait.
func (o *oracle) full() bool { return !o.pausedUntil.IsZero() || len(o.running) >= o.workers }

// pause hands out no permit before until, or again from now on if that is not ahead.
func (o *oracle) pause(at, until time.Time) []wakeup {
	o.advanceTo(at)
	if o.pausedUntil = until; !until.After(o.now) {
		o.pausedUntil = time.Time{}
	}
	return o.grantFree()
}

// oldest returns the age of the oldest waiting job of a kind, 0 if none waits.
func (o *oracle) oldest(kind func(*job) bool) time.Duration {
	var age time.Duration
	for _, w := range o.waiting {
		if kind(w) {
			age = max(age, o.now.Sub(w.arrived))
		}
	}
	return age
}

// offer decides about j.
func (o *oracle) offer(at time.Time, j *job) answer {
	o.advanceTo(at)
	j.arrived = o.now
	if o.draining {
		return answer{reason: admission.ReasonDraining}
	}
	a := answer{ticket: true}
	if reason := o.rule.admit(o, j); reason != admission.ReasonNone {
		switch o.mode {
		case admission.Enforce:
			return answer{reason: reason}
		case admission.Observe:
			a.would = reason
		}
	}
	switch {
	case !o.full():
		o.run(j)
	case len(o.waiting) >= o.limit:
		return answer{reason: admission.ReasonMemory, would: a.would}
	default:
		a.waiting = true
		o.waiting = append(o.waiting, j)
	}
	return a
}

// start decides whether a running job may still go upstream.
func (o *oracle) start(at time.Time, j *job) (answer, []wakeup) {
	o.advanceTo(at)
	if !slices.Contains(o.running, j) {
		return answer{ticket: true}, nil
	}
	reason := o.dispatch(j)
	switch {
	case reason == admission.ReasonNone || o.mode == admission.PassThrough:
		return answer{ticket: true}, nil
	case o.mode == admission.Observe:
		return answer{ticket: true, would: reason}, nil
	}
	o.running = without(o.running, j)
	return answer{reason: reason}, o.grantFree()
}

// release gives the permit of j back, if it has one.
func (o *oracle) release(at time.Time, j *job) (answer, []wakeup) {
	o.advanceTo(at)
	if !slices.Contains(o.running, j) {
		return answer{}, nil
	}
	o.running = without(o.running, j)
	return answer{ok: true}, o.grantFree()
}

// leave takes j out of the queue, if it waits.
func (o *oracle) leave(at time.Time, j *job) answer {
	o.advanceTo(at)
	if !slices.Contains(o.waiting, j) {
		return answer{}
	}
	o.waiting = without(o.waiting, j)
	return answer{ok: true}
}

// expire takes j out of the queue if the policy will not dispatch it any more.
func (o *oracle) expire(at time.Time, j *job) answer {
	o.advanceTo(at)
	if o.mode != admission.Enforce || !slices.Contains(o.waiting, j) {
		return answer{}
	}
	reason := o.dispatch(j)
	if reason != admission.ReasonNone {
		o.waiting = without(o.waiting, j)
	}
	return answer{reason: reason}
}

// resize changes the number of permits; fewer than one is refused.
func (o *oracle) resize(at time.Time, workers int) (answer, []wakeup) {
	if workers < 1 {
		return answer{}, nil
	}
	o.advanceTo(at)
	o.workers = workers
	return answer{ok: true}, o.grantFree()
}

// drain refuses all waiting jobs.
func (o *oracle) drain(at time.Time) []wakeup {
	o.advanceTo(at)
	o.draining = true
	var out []wakeup
	for _, w := range o.waiting {
		out = append(out, wakeup{w.seq, admission.ReasonDraining})
	}
	o.waiting = nil
	return out
}

// grantFree grants free permits to waiting jobs, oldest first, and drops
// whom the policy will not dispatch any more.
func (o *oracle) grantFree() []wakeup {
	var out []wakeup
	for len(o.waiting) > 0 && !o.full() {
		head := o.waiting[0]
		o.waiting = o.waiting[1:]
		reason := o.dispatch(head)
		if o.mode == admission.Enforce && reason != admission.ReasonNone {
			out = append(out, wakeup{head.seq, reason})
			continue
		}
		o.run(head)
		out = append(out, wakeup{head.seq, admission.ReasonNone})
	}
	return out
}

// dispatch returns the policy's reason not to serve j now: none, if j was admitted
// under another mode.
func (o *oracle) dispatch(j *job) admission.Reason {
	if j.grandfathered || o.bypassing {
		return admission.ReasonNone
	}
	return o.rule.dispatch(o, j)
}

// setMode changes the mode. Whoever is in is served.
func (o *oracle) setMode(at time.Time, m admission.Mode) (answer, []wakeup) {
	o.bypassing = o.bypassing || m == admission.PassThrough
	o.advanceTo(at)
	o.bypassing = m == admission.PassThrough
	a := answer{mode: o.mode}
	if o.mode != m {
		o.mode = m
		for _, j := range slices.Concat(o.waiting, o.running) {
			j.grandfathered = true
		}
	}
	return a, o.grantFree()
}

// run gives j a permit.
func (o *oracle) run(j *job) {
	j.granted = o.now
	o.running = append(o.running, j)
}

// without returns jobs less j.
func without(jobs []*job, j *job) []*job {
	return slices.DeleteFunc(slices.Clone(jobs), func(other *job) bool { return other == j })
}
