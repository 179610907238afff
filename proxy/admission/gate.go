package admission

import (
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a gate is made of.
type Config struct {
	Workers int    // N, at least 1
	Policy  Policy // who comes in
	Mode    Mode   // what the policy's word counts for, to begin with
	// QueueLimit bounds the tasks that wait, whatever mode and policy say:
	// memory is finite. A policy that bounds its queue should stay below it.
	QueueLimit int
	// AssumedService is the mean service time to reckon with until the first
	// task has been served. A quarter of the SLO is a good guess: with a longer
	// mean the threshold policy does not hold the SLO anyhow.
	AssumedService time.Duration
	Monitor        Monitor // watches the gate for as long as it lives; nil: nobody does
}

// FieldError says which setting was refused, and what would be right.
type FieldError struct {
	Field   string // its name in the settings
	Message string
}

// Error returns the field and what is wrong with it.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Gate is the permits, the queue and the policy of one pool. All methods may be
// called from any goroutine. They never block, but for the lock; what takes the
// gate out works even if a policy holds the lock for too long.
type Gate struct {
	monitor   Monitor
	panicked  atomic.Bool // panics is set; for those who do not hold the lock
	bypassing atomic.Bool // mode passthrough is about to come, or is there
	cached    cachedSnapshot

	mu                 sync.Mutex
	settings           Config // its Mode is the current one
	draining           bool
	pausedUntil        time.Time // until when no permit is handed out; zero: the pool is not paused
	inFlight           int
	queue              queue
	service            service
	estimate           Service // what service comes to
	seq                uint64  // of the next ticket
	grandfatheredBelow uint64  // tickets below this number came in before the mode last changed
	latest             time.Time
	pendingPanics      PanicReport // of the policy, not asked for yet
}

// New returns an empty gate, or a *FieldError.
func New(c Config) (*Gate, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	g := &Gate{settings: c, monitor: c.Monitor, estimate: Service{Mean: c.AssumedService}}
	g.bypassing.Store(c.Mode == PassThrough)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notifyLimitsLocked()
	g.cached.store(g.snapshotLocked(time.Time{}))
	return g, nil
}

func (c Config) validate() error {
	switch {
	case c.Workers < 1:
		return workersError(c.Workers)
	case c.Policy == nil:
		return &FieldError{"policy", "must be set"}
	case int(c.Mode) >= len(modeNames):
		return &FieldError{"mode", "must be enforce, observe or passthrough, is " + c.Mode.String()}
	case c.QueueLimit < 1:
		return &FieldError{"passthrough_queue", fmt.Sprintf("must be at least 1, is %d", c.QueueLimit)}
	case c.AssumedService <= 0:
		return &FieldError{"assumed_service", fmt.Sprintf("must be above 0, is %s", c.AssumedService)}
	}
	return nil
}

func workersError(n int) error {
	return &FieldError{"workers", fmt.Sprintf("must be at least 1, is %d", n)}
}

// Offer asks for a permit. When the decision is to wait, the task's Waiter hears
// the end of it, unless Leave or Expire comes first.
func (g *Gate) Offer(now time.Time, task Task) Decision {
	now = g.lock(now)
	defer g.mu.Unlock()
	v := g.viewLocked(now)
	if g.draining {
		return refuse(Verdict{ReasonDraining, v.DrainTime(v.Depth)}, task.JitterSeed)
	}
	verdict := g.admitLocked(v, task)
	if g.settings.Mode == Enforce && verdict.Reason != ReasonNone {
		d := refuse(verdict, task.JitterSeed)
		d.Violation = g.checkRefusalLocked(now, task.Class, verdict.Reason)
		return d
	}
	if !g.hasPermitLocked() && g.queue.depth >= g.settings.QueueLimit {
		d := refuse(Verdict{ReasonMemory, v.DrainTime(v.Depth - g.settings.QueueLimit + 1)}, task.JitterSeed)
		d.ObservedReason = verdict.Reason
		return d
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

// Start asks a last time, just before the task goes upstream: its deadline may
// have passed since the grant. When refused, the permit is already back and the
// task must not go upstream. In any state but running it refuses nothing.
func (g *Gate) Start(now time.Time, t *Ticket) Decision {
	d, done := g.start(now, t)
	done.notify()
	return d
}

func (g *Gate) start(now time.Time, t *Ticket) (Decision, wakeList) {
	now = g.lock(now)
	defer g.mu.Unlock()
	if t.state != running {
		return Decision{Ticket: t}, wakeList{}
	}
	v := g.viewLocked(now)
	reason := g.dispatchReasonLocked(v, t)
	if g.settings.Mode != Enforce || reason == ReasonNone {
		return Decision{Ticket: t, ObservedReason: reason}, wakeList{}
	}
	g.notifyStepLocked(now, t, StepReleased)
	g.releasePermitLocked(t)
	return refuse(Verdict{reason, v.DrainTime(v.Depth)}, t.task.JitterSeed), g.grantWaitingLocked(now)
}

// Release gives the permit back. It reports whether t held one: a second
// release does nothing.
func (g *Gate) Release(now time.Time, t *Ticket, e Sample) bool {
	held, done := g.release(now, t, e)
	done.notify()
	return held
}

func (g *Gate) release(now time.Time, t *Ticket, e Sample) (bool, wakeList) {
	now = g.lock(now)
	defer g.mu.Unlock()
	g.notifyStepLocked(now, t, StepReleased)
	if t.state != running {
		return false, wakeList{}
	}
	g.releasePermitLocked(t)
	if e == Served {
		g.service.observe(now.Sub(t.granted))
		g.estimate = g.service.estimate()
	}
	return true, g.grantWaitingLocked(now)
}

// Cancel takes a waiting task out of the queue because its owner has gone. It
// reports whether the task was still waiting; if not, it holds a permit that
// must be released, or it has been settled already. This is where a grant and a
// departure that happen at the same time are told apart.
func (g *Gate) Cancel(now time.Time, t *Ticket) bool {
	now = g.lock(now)
	defer g.mu.Unlock()
	g.notifyStepLocked(now, t, StepDequeued)
	return g.dequeueLocked(t)
}

// Expire takes a waiting task out of the queue if the policy will not dispatch
// it any more; for the owner to call when the deadline passes. The refusal has
// no reason if the task stays, or waits no longer.
func (g *Gate) Expire(now time.Time, t *Ticket) Refusal {
	now = g.lock(now)
	defer g.mu.Unlock()
	if t.state != waiting || g.settings.Mode != Enforce {
		return Refusal{}
	}
	v := g.viewLocked(now)
	reason := g.dispatchReasonLocked(v, t)
	if reason == ReasonNone || !g.dequeueLocked(t) {
		return Refusal{}
	}
	g.notifyStepLocked(now, t, StepDequeued)
	return refuse(Verdict{reason, v.DrainTime(v.Depth - 1)}, t.task.JitterSeed).Refusal
}

// Refuse returns the refusal of a task that is turned away outside the gate
// (for its body, say), with a Retry-After by which the queue will have drained.
func (g *Gate) Refuse(now time.Time, r Reason, spread uint64) Refusal {
	now = g.lock(now)
	defer g.mu.Unlock()
	v := g.viewLocked(now)
	return refuse(Verdict{r, v.DrainTime(v.Depth)}, spread).Refusal
}

func refuse(v Verdict, spread uint64) Decision {
	return Decision{Refusal: Refusal{Reason: v.Reason, RetryAfter: retryAfter(v.Wait, spread)}}
}

func (g *Gate) dequeueLocked(t *Ticket) bool {
	if t.state != waiting {
		return false
	}
	g.queue.remove(t)
	t.state = ended
	return true
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

// grantWaitingLocked hands free permits to those who wait, first come first
// served, and takes out those whom the policy will not dispatch any more.
func (g *Gate) grantWaitingLocked(now time.Time) wakeList {
	var done wakeList
	for g.hasPermitLocked() {
		t := g.queue.front()
		if t == nil {
			break
		}
		v := g.viewLocked(now)
		reason := g.dispatchReasonLocked(v, t)
		g.queue.remove(t)
		if g.settings.Mode == Enforce && reason != ReasonNone {
			t.state = ended
			g.notifyStepLocked(now, t, StepDequeued)
			done.add(t, refuse(Verdict{reason, v.DrainTime(v.Depth - 1)}, t.task.JitterSeed).Refusal)
			continue
		}
		g.grantLocked(t, now)
		done.add(t, Refusal{})
	}
	return done
}

// advanceLocked returns now, or the latest time seen if that is later: callers
// read the clock before they get the lock.
func (g *Gate) advanceLocked(now time.Time) time.Time {
	if now.After(g.latest) {
		g.latest = now
	}
	return g.latest
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

// Reconfigure changes everything but mode and watcher at once, from the next decision
// on, or nothing when c makes no sense. Nothing that runs or waits is touched:
// more permits are granted to those who wait; fewer are taken from nobody.
func (g *Gate) Reconfigure(now time.Time, c Config) error {
	c.Mode = Enforce // any valid one
	if err := c.validate(); err != nil {
		return err
	}
	g.update(now, func() {
		c.Mode = g.settings.Mode
		g.settings = c
		if !g.estimate.Measured {
			g.estimate.Mean = c.AssumedService
		}
	})
	return nil
}

// SetMode changes what the policy's word counts for, from the next offer on,
// and returns the mode before. Nothing that runs or waits is touched: those who
// came in under another mode are served, even if their deadline passes. Only
// DropOverdue takes that back.
func (g *Gate) SetMode(now time.Time, m Mode) Mode {
	if m == PassThrough {
		g.bypassing.Store(true) // whoever has the lock before us does not ask the policy any more
	}
	var before Mode
	g.update(now, func() {
		if before = g.settings.Mode; before != m {
			g.settings.Mode, g.grandfatheredBelow = m, g.seq
		}
		g.bypassing.Store(m == PassThrough)
	})
	return before
}

// Drain turns away everybody who waits, and from now on everybody who comes,
// with ReasonDraining. Those who run are left to finish.
func (g *Gate) Drain(now time.Time) {
	done := g.drain(now)
	done.notify()
}

func (g *Gate) drain(now time.Time) wakeList {
	now = g.lock(now)
	defer g.mu.Unlock()
	g.draining = true
	var done wakeList
	for t := g.queue.front(); t != nil; t = g.queue.front() {
		v := g.viewLocked(now)
		g.notifyStepLocked(now, t, StepDequeued)
		g.dequeueLocked(t)
		done.add(t, refuse(Verdict{ReasonDraining, v.DrainTime(v.Depth)}, t.task.JitterSeed).Refusal)
	}
	return done
}

// Overdue returns how many of those who wait can no longer end in time, and how
// long it takes until all who wait have been granted a permit, both at the
// observed rate of service.
func (g *Gate) Overdue(now time.Time) (n int, drain time.Duration) {
	now = g.lock(now)
	defer g.mu.Unlock()
	v := g.viewLocked(now)
	for range g.overdueLocked(v) {
		n++
	}
	return n, v.DrainTime(v.Depth)
}

// DropOverdue turns away those who wait and can no longer end in time, and
// returns how many they were. It is for the return from a mode in which
// deadlines did not count.
func (g *Gate) DropOverdue(now time.Time) int {
	n, done := g.dropOverdue(now)
	done.notify()
	return n
}

func (g *Gate) dropOverdue(now time.Time) (int, wakeList) {
	now = g.lock(now)
	defer g.mu.Unlock()
	v := g.viewLocked(now)
	var done wakeList
	overdue := slices.Collect(g.overdueLocked(v))
	for _, t := range overdue {
		reason := ReasonDeadlineUnmeetable
		if t.task.pastDeadline(v.Now) {
			reason = ReasonDeadlinePassed
		}
		g.notifyStepLocked(v.Now, t, StepDequeued)
		g.dequeueLocked(t)
		done.add(t, refuse(Verdict{reason, v.DrainTime(g.queue.depth)}, t.task.JitterSeed).Refusal)
	}
	return len(overdue), done
}

// overdueLocked yields the waiting tickets whose projected end, behind those
// that stay, is past their deadline.
func (g *Gate) overdueLocked(v View) iter.Seq[*Ticket] {
	return func(yield func(*Ticket) bool) {
		stay := 0
		for t := range g.queue.all() {
			end := v.Now.Add(v.DrainTime(stay + 1)).Add(v.Service.Mean)
			if t.task.Deadline.IsZero() || !end.After(t.task.Deadline) {
				stay++
			} else if !yield(t) {
				return
			}
		}
	}
}

// update changes a setting and grants what the change has made possible.
func (g *Gate) update(now time.Time, change func()) {
	done := func() wakeList {
		now := g.lock(now)
		defer g.mu.Unlock()
		change()
		return g.applyChangeLocked(now)
	}()
	done.notify()
}

func (g *Gate) applyChangeLocked(now time.Time) wakeList {
	if g.pauseExpiredLocked(now) {
		g.pausedUntil = time.Time{}
	}
	g.notifyLimitsLocked()
	done := g.grantWaitingLocked(now)
	g.cached.store(g.snapshotLocked(now))
	return done
}

// Pause hands out no permit before until: for maintenance of the endpoint. Those
// who run are left to finish, and those who come wait, or are turned away, by
// the ordinary rules, as if all permits were out. It ends by itself with the
// first call on the gate at until or later, reading a Snapshot included, and
// earlier with Resume. Pausing again replaces the end; an end that is not after
// now is a Resume.
func (g *Gate) Pause(now, until time.Time) {
	g.update(now, func() { g.pausedUntil = until })
}

// Resume ends a pause, if there is one, and grants to those who waited for it.
func (g *Gate) Resume(now time.Time) {
	g.update(now, func() { g.pausedUntil = time.Time{} })
}

// lock takes the lock and returns the time that counts: now, or the latest time
// seen if that is later. If a pause has come to its end, those who waited for it
// have been granted to before it returns, whatever the caller is about to do.
func (g *Gate) lock(now time.Time) time.Time {
	for {
		g.mu.Lock()
		now = g.advanceLocked(now)
		if !g.pauseExpiredLocked(now) {
			return now
		}
		g.endPauseAndUnlock(now)
	}
}

func (g *Gate) endPauseAndUnlock(now time.Time) {
	done := func() wakeList {
		defer g.mu.Unlock()
		return g.applyChangeLocked(now)
	}()
	done.notify()
}

func (g *Gate) pauseExpiredLocked(now time.Time) bool {
	return !g.pausedUntil.IsZero() && !now.Before(g.pausedUntil)
}

// hasPermitLocked says whether there is a permit to hand out.
func (g *Gate) hasPermitLocked() bool {
	return g.pausedUntil.IsZero() && g.inFlight < g.settings.Workers
}

// PanicReport is what a policy did instead of deciding. The gate fails open: the task
// in question comes in and is dispatched as in mode passthrough.
type PanicReport struct {
	Count int    // since the last call of Panics
	Value any    // of the first of them
	Stack []byte // of the first of them
}

// TakePanics returns the panics of the policy that were caught since the last call.
// When there was none, it costs no lock.
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

func (g *Gate) recordPanicLocked(value any) {
	if g.pendingPanics.Count++; g.pendingPanics.Count == 1 {
		g.pendingPanics.Value, g.pendingPanics.Stack = value, debug.Stack()
		g.panicked.Store(true)
	}
}

// admitLocked asks the policy about a task that wants to come in.
func (g *Gate) admitLocked(v View, t Task) (verdict Verdict) {
	if g.bypassing.Load() {
		return Verdict{}
	}
	defer func() {
		if value := recover(); value != nil {
			g.recordPanicLocked(value)
			verdict = Verdict{}
		}
	}()
	return g.settings.Policy.Admit(v, t)
}

// dispatchReasonLocked asks the policy about a task that came in earlier.
func (g *Gate) dispatchReasonLocked(v View, t *Ticket) (reason Reason) {
	if g.bypassing.Load() || t.seq < g.grandfatheredBelow {
		return ReasonNone
	}
	defer func() {
		if value := recover(); value != nil {
			g.recordPanicLocked(value)
			reason = ReasonNone
		}
	}()
	return g.settings.Policy.Dispatch(v, t.task)
}
