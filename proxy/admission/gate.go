package admission

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a gate.
type Config struct {
	Workers int    // N, at least 1
	Policy  Policy // decides which tasks are admitted
	Mode    Mode   // initial mode; SetMode changes it
	// QueueLimit bounds the waiting tasks in every mode and under every policy,
	// because memory is finite. A policy with a bound of its own should use a lower one.
	QueueLimit int
	// AssumedService is the mean service time used until the first task has been
	// served. A quarter of the SLO is a good guess: with a longer mean the
	// threshold policy does not hold the SLO anyway.
	AssumedService time.Duration
	Monitor        Monitor // observes the gate for its whole life; may be nil
}

// FieldError names an invalid setting and the valid values.
type FieldError struct {
	Field   string // its name in the settings
	Message string
}

// Error returns the field and its error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Gate holds the permits, the queue and the policy of one pool. Its methods are
// safe for concurrent use and block on nothing but its lock. SetMode(PassThrough)
// takes effect even while a slow policy holds the lock.
type Gate struct {
	monitor     Monitor
	panicked    atomic.Bool // pendingPanics is set; readable without the lock
	passThrough atomic.Bool // mode is passthrough, or is about to be; readable without the lock
	cached      cachedSnapshot

	mu             sync.Mutex
	settings       Config // its Mode is the current one
	draining       bool
	pausedUntil    time.Time // no permit is granted before; zero: the pool is not paused
	inFlight       int
	queue          queue
	settled        wakeList // tickets whose wait ended under the lock; unlock calls their waiters
	service        service
	estimate       Service // the current result of service
	seq            uint64  // of the next ticket
	firstSeqOfMode uint64  // tickets below this number were admitted before the mode last changed
	latest         time.Time
	pendingPanics  PanicReport // of the policy, until TakePanics
}

// New returns an empty gate, or a *FieldError.
func New(c Config) (*Gate, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if int(c.Mode) >= len(modeNames) {
		return nil, &FieldError{"mode", "must be enforce, observe or passthrough, is " + c.Mode.String()}
	}
	g := &Gate{settings: c, monitor: c.Monitor, estimate: Service{Mean: c.AssumedService}}
	g.passThrough.Store(c.Mode == PassThrough)
	g.mu.Lock()
	defer g.unlock()
	g.applyChangeLocked(time.Time{})
	return g, nil
}

// validate checks everything but the mode, which Reconfigure leaves alone.
func (c Config) validate() error {
	switch {
	case c.Workers < 1:
		return &FieldError{"workers", fmt.Sprintf("must be at least 1, is %d", c.Workers)}
	case c.Policy == nil:
		return &FieldError{"policy", "must be set"}
	case c.QueueLimit < 1:
		return &FieldError{"passthrough_queue", fmt.Sprintf("must be at least 1, is %d", c.QueueLimit)}
	case c.AssumedService <= 0:
		return &FieldError{"assumed_service", fmt.Sprintf("must be above 0, is %s", c.AssumedService)}
	}
	return nil
}

// lock takes the lock and returns the effective time: now, or the latest time
// seen if that is later, because callers read the clock before they get the lock.
// A pause that has expired ends first, whatever the caller is about to do.
func (g *Gate) lock(now time.Time) time.Time {
	g.mu.Lock()
	return g.advanceLocked(now)
}

func (g *Gate) advanceLocked(now time.Time) time.Time {
	if now.After(g.latest) {
		g.latest = now
	}
	if !g.pausedUntil.IsZero() && !g.latest.Before(g.pausedUntil) {
		g.pausedUntil = time.Time{}
		g.applyChangeLocked(g.latest)
	}
	return g.latest
}

// unlock releases the lock and then calls the waiters whose wait ended under it.
func (g *Gate) unlock() {
	settled := g.settled
	g.settled = wakeList{}
	g.mu.Unlock()
	settled.notify()
}

// Offer asks for a permit. If the decision is to wait, the task's Waiter is
// called when the wait ends, unless Cancel or Expire ends it first.
func (g *Gate) Offer(now time.Time, task Task) Decision {
	now = g.lock(now)
	defer g.unlock()
	v := g.viewLocked(now)
	if g.draining {
		return Decision{Refusal: task.refusal(Verdict{ReasonDraining, v.DrainTime(v.Depth)})}
	}
	verdict := g.admitLocked(v, task)
	if g.settings.Mode == Enforce && verdict.Reason != ReasonNone {
		return Decision{Refusal: task.refusal(verdict), Violation: g.checkRefusalLocked(now, task.Class, verdict.Reason)}
	}
	if !g.hasPermitLocked() && g.queue.depth >= g.settings.QueueLimit {
		wait := v.DrainTime(v.Depth - g.settings.QueueLimit + 1)
		return Decision{Refusal: task.refusal(Verdict{ReasonMemory, wait}), ObservedReason: verdict.Reason}
	}
	t := &Ticket{task: task, seq: g.seq, offered: now}
	g.seq++
	d := Decision{Ticket: t, ObservedReason: verdict.Reason}
	if g.hasPermitLocked() {
		g.grantLocked(t, now)
	} else {
		g.queue.push(t)
		g.notifyStepLocked(now, t, StepQueued)
		d.Waiting = true
	}
	return d
}

// CheckDispatch asks the policy once more about a task just before it goes upstream,
// because its deadline may have passed since the grant. If it refuses, the permit has been
// returned and the task must not go upstream. A task that is not running is never
// refused.
func (g *Gate) CheckDispatch(now time.Time, t *Ticket) Decision {
	now = g.lock(now)
	defer g.unlock()
	if t.state != running {
		return Decision{Ticket: t}
	}
	v := g.viewLocked(now)
	reason := g.dispatchReasonLocked(v, t)
	if g.settings.Mode != Enforce || reason == ReasonNone {
		return Decision{Ticket: t, ObservedReason: reason}
	}
	g.notifyStepLocked(now, t, StepReleased)
	g.releasePermitLocked(t)
	g.grantWaitingLocked(now)
	return Decision{Refusal: t.task.refusal(Verdict{reason, v.DrainTime(v.Depth)})}
}

// Release returns the permit. It reports whether t held one: a second release
// does nothing.
func (g *Gate) Release(now time.Time, t *Ticket, s Sample) bool {
	now = g.lock(now)
	defer g.unlock()
	g.notifyStepLocked(now, t, StepReleased)
	if t.state != running {
		return false
	}
	g.releasePermitLocked(t)
	if s == Served {
		g.service.observe(now.Sub(t.granted))
		g.estimate = g.service.estimate()
	}
	g.grantWaitingLocked(now)
	return true
}

// Cancel removes a waiting task from the queue because its owner has left. It
// reports whether the task was still waiting; if not, it holds a permit that must
// be released, or its wait has ended in a refusal. This decides between a grant
// and a departure at the same time.
func (g *Gate) Cancel(now time.Time, t *Ticket) bool {
	now = g.lock(now)
	defer g.unlock()
	g.notifyStepLocked(now, t, StepDequeued)
	return g.dequeueLocked(t)
}

// Expire removes a waiting task from the queue if the policy will not dispatch it
// any more; the owner calls it when the deadline passes. The refusal has no
// reason if the task stays, or does not wait any more.
func (g *Gate) Expire(now time.Time, t *Ticket) Refusal {
	now = g.lock(now)
	defer g.unlock()
	if t.state != waiting || g.settings.Mode != Enforce {
		return Refusal{}
	}
	v := g.viewLocked(now)
	reason := g.dispatchReasonLocked(v, t)
	if reason == ReasonNone || !g.dequeueLocked(t) {
		return Refusal{}
	}
	g.notifyStepLocked(now, t, StepDequeued)
	return t.task.refusal(Verdict{reason, v.DrainTime(v.Depth - 1)})
}

// RetryAfter returns the Retry-After for a task that is refused outside the gate (for
// its body, for example): the time by which the queue will have drained.
func (g *Gate) RetryAfter(now time.Time, jitterSeed uint64) time.Duration {
	now = g.lock(now)
	defer g.unlock()
	v := g.viewLocked(now)
	return retryAfter(v.DrainTime(v.Depth), jitterSeed)
}

// Reconfigure changes everything but mode and monitor at once, from the next
// decision on; if c is invalid, it changes nothing. Running and waiting tasks are
// not touched: a higher N is granted to waiting tasks, a lower N revokes no permit.
func (g *Gate) Reconfigure(now time.Time, c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	now = g.lock(now)
	defer g.unlock()
	c.Mode = g.settings.Mode
	g.settings = c
	if !g.estimate.Measured {
		g.estimate.Mean = c.AssumedService
	}
	g.applyChangeLocked(now)
	return nil
}

// SetMode changes the mode from the next offer on and returns the previous one.
// Running and waiting tasks are not touched: those that were admitted under
// another mode are served even if their deadline passes. Only DropOverdue
// removes them.
func (g *Gate) SetMode(now time.Time, m Mode) Mode {
	if m == PassThrough {
		g.passThrough.Store(true) // callers ahead of us in the lock's queue skip the policy already
	}
	now = g.lock(now)
	defer g.unlock()
	before := g.settings.Mode
	if before != m {
		g.settings.Mode, g.firstSeqOfMode = m, g.seq
	}
	g.passThrough.Store(m == PassThrough)
	g.applyChangeLocked(now)
	return before
}

// Pause grants no permit before until: for maintenance of the endpoint. Running
// tasks finish; new ones wait or are refused by the usual rules, as if all permits
// were out. The pause ends by itself with the first call on the gate at until or
// later, Snapshot included, or earlier with Resume. Pausing again replaces the
// end; an end that is not after now resumes.
func (g *Gate) Pause(now, until time.Time) {
	now = g.lock(now)
	defer g.unlock()
	if g.pausedUntil = until; !until.After(now) {
		g.pausedUntil = time.Time{}
	}
	g.applyChangeLocked(now)
}

// Resume ends a pause, if there is one, and grants permits to waiting tasks.
func (g *Gate) Resume(now time.Time) { g.Pause(now, time.Time{}) }

// Drain refuses all waiting tasks, and all later ones, with ReasonDraining.
// Running tasks finish.
func (g *Gate) Drain(now time.Time) {
	now = g.lock(now)
	defer g.unlock()
	g.draining = true
	v := g.viewLocked(now)
	for t := g.queue.front(); t != nil; t = g.queue.front() {
		g.dropLocked(v, t, ReasonDraining, g.queue.depth)
	}
}

// Overdue returns how many waiting tasks can no longer end in time, and how long
// it takes until all waiting tasks have been granted a permit, both at the
// observed service rate.
func (g *Gate) Overdue(now time.Time) (n int, drain time.Duration) {
	now = g.lock(now)
	defer g.unlock()
	v := g.viewLocked(now)
	return len(g.overdueLocked(v)), v.DrainTime(v.Depth)
}

// DropOverdue refuses the waiting tasks that can no longer end in time and returns
// their number. It is for the return from a mode that ignores deadlines.
func (g *Gate) DropOverdue(now time.Time) int {
	now = g.lock(now)
	defer g.unlock()
	v := g.viewLocked(now)
	overdue := g.overdueLocked(v)
	for _, t := range overdue {
		reason := ReasonDeadlineUnmeetable
		if t.task.pastDeadline(now) {
			reason = ReasonDeadlinePassed
		}
		g.dropLocked(v, t, reason, g.queue.depth-1)
	}
	return len(overdue)
}

// overdueLocked returns the waiting tickets whose projected end, behind those that
// stay, is past their deadline.
func (g *Gate) overdueLocked(v View) (overdue []*Ticket) {
	stay := 0
	for t := range g.queue.all() {
		end := v.Now.Add(v.DrainTime(stay + 1)).Add(v.Service.Mean)
		if t.task.Deadline.IsZero() || !end.After(t.task.Deadline) {
			stay++
		} else {
			overdue = append(overdue, t)
		}
	}
	return overdue
}

// applyChangeLocked announces a changed setting and grants the permits that it
// has made available.
func (g *Gate) applyChangeLocked(now time.Time) {
	g.notifyLimitsLocked()
	g.grantWaitingLocked(now)
	g.cached.store(g.snapshotLocked(now))
}

// hasPermitLocked reports whether a permit can be granted.
func (g *Gate) hasPermitLocked() bool {
	return g.pausedUntil.IsZero() && g.inFlight < g.settings.Workers
}

func (g *Gate) grantLocked(t *Ticket, now time.Time) {
	t.state = running
	t.granted = now
	g.inFlight++
	g.notifyStepLocked(now, t, StepGranted)
}

func (g *Gate) releasePermitLocked(t *Ticket) {
	t.state = ended
	g.inFlight--
}

// grantWaitingLocked grants free permits to waiting tasks, first come first
// served, and drops those that the policy will not dispatch any more.
func (g *Gate) grantWaitingLocked(now time.Time) {
	for g.hasPermitLocked() {
		t := g.queue.front()
		if t == nil {
			return
		}
		v := g.viewLocked(now)
		reason := g.dispatchReasonLocked(v, t)
		if g.settings.Mode == Enforce && reason != ReasonNone {
			g.dropLocked(v, t, reason, v.Depth-1)
			continue
		}
		g.queue.remove(t)
		g.grantLocked(t, now)
		g.settled.add(t, Refusal{})
	}
}

// dropLocked refuses a waiting task. Its Retry-After is the time in which ahead
// waiting tasks get their permits.
func (g *Gate) dropLocked(v View, t *Ticket, r Reason, ahead int) {
	g.dequeueLocked(t)
	g.notifyStepLocked(v.Now, t, StepDequeued)
	g.settled.add(t, t.task.refusal(Verdict{r, v.DrainTime(ahead)}))
}

func (g *Gate) dequeueLocked(t *Ticket) bool {
	if t.state != waiting {
		return false
	}
	g.queue.remove(t)
	t.state = ended
	return true
}

func (g *Gate) viewLocked(now time.Time) View {
	v := View{
		Now: now, Workers: g.settings.Workers, InFlight: g.inFlight, Depth: g.queue.depth,
		Service: g.estimate, queue: &g.queue,
	}
	if !g.pausedUntil.IsZero() {
		v.InFlight = max(v.InFlight, v.Workers)
		v.PauseLeft = max(g.pausedUntil.Sub(now), 0)
	}
	return v
}

// admitLocked asks the policy whether to admit a task.
func (g *Gate) admitLocked(v View, t Task) Verdict {
	if g.passThrough.Load() {
		return Verdict{}
	}
	defer g.recoverPolicyLocked()
	return g.settings.Policy.Admit(v, t)
}

// dispatchReasonLocked asks the policy about a task that was admitted earlier.
func (g *Gate) dispatchReasonLocked(v View, t *Ticket) Reason {
	if g.passThrough.Load() || t.seq < g.firstSeqOfMode {
		return ReasonNone
	}
	defer g.recoverPolicyLocked()
	return g.settings.Policy.Dispatch(v, t.task)
}

// recoverPolicyLocked is deferred around calls of the policy. After a panic the
// caller returns its zero value: the gate fails open, and the task is admitted and
// dispatched as in mode passthrough.
func (g *Gate) recoverPolicyLocked() {
	value := recover()
	if value == nil {
		return
	}
	if g.pendingPanics.Count++; g.pendingPanics.Count == 1 {
		g.pendingPanics.Value, g.pendingPanics.Stack = value, debug.Stack()
		g.panicked.Store(true)
	}
}

// PanicReport describes panics of the policy that the gate has caught.
type PanicReport struct {
	Count int    // since the last call of TakePanics
	Value any    // of the first of them
	Stack []byte // of the first of them
}

// TakePanics returns the panics of the policy that were caught since the last call.
// If there were none, it does not take the lock.
func (g *Gate) TakePanics() PanicReport {
	if !g.panicked.Load() {
		return PanicReport{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pendingPanics
	g.pendingPanics = PanicReport{}
	g.panicked.Store(false)
	return p
}
