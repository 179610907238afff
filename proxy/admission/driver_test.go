package admission_test

import (
	"fmt"
	"slices"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// subject is the gate, or something that pretends to be one: the driver must
// find the faults of the pretenders in mutant_test.go.
type subject interface {
	Offer(time.Time, admission.Task) admission.Decision
	Start(time.Time, *admission.Ticket) admission.Decision
	Release(time.Time, *admission.Ticket, admission.Sample) bool
	Cancel(time.Time, *admission.Ticket) bool
	Expire(time.Time, *admission.Ticket) admission.Refusal
	Resize(time.Time, int) error
	SetMode(time.Time, admission.Mode) admission.Mode
	Pause(now, until time.Time)
	Resume(time.Time)
	Finish(time.Time, *admission.Ticket)
	SetPolicy(time.Time, admission.Policy)
	Drain(time.Time)
	Snapshot(time.Time) admission.Snapshot
}

// epoch is when every virtual clock starts.
var epoch = time.Date(2026, 1, 5, 9, 14, 0, 0, time.UTC)

// driver does random things to a gate and to the oracle, and compares the two
// after each of them.
type driver struct {
	src    source
	gate   subject
	oracle *oracle
	rules  []rule

	opsPerTick    int       // how much happens in one instant: fuller queues, or older ones
	clock         time.Time // of the driver; what it passes may lie before it
	op            string    // what was done last
	steps         int       // so far
	stepsDraining int       // of them after Drain
	coverage      map[string]int

	offered          int       // tasks so far
	issued, finished int       // tickets issued, and tickets that have come to their end
	ended            []*job    // some that have left, to be misused
	wakeups          []wakeup  // what waiters heard since the last step
	badRefusal       string    // a malformed Retry-After that a waiter heard
	violation        string    // what the shadow has against a refusal
	at               time.Time // what is passed to the gate in this step

	lastGranted int // sequence number of the latest grant, -1 before the first
	orderError  string
}

// newDriver returns a driver over a gate that build makes from the first rule.
func newDriver(src source, rules []rule, build func(admission.Config) subject) *driver {
	workers, limit := 1+src.draw(5), 1+src.draw(30)
	return &driver{
		src: src, rules: rules, clock: epoch, opsPerTick: 1 + src.draw(8), lastGranted: -1,
		coverage: map[string]int{},
		oracle:   &oracle{rule: rules[0], workers: workers, limit: limit},
		gate: build(admission.Config{
			Workers: workers, QueueLimit: limit, Policy: rules[0].policy, AssumedService: 15 * time.Second,
			Monitor: invariant.New(),
		}),
	}
}

// run takes up to n steps, few of them after a drain, and returns the first
// disagreement.
func (d *driver) run(n int) error {
	for ; d.steps < n && d.stepsDraining < 50 && !d.src.empty(); d.steps++ {
		if err := d.step(); err != nil {
			return fmt.Errorf("step %d, %s: %w", d.steps, d.op, err)
		}
		if d.oracle.draining {
			d.stepsDraining++
		}
	}
	return nil
}

// step does one thing to both sides and compares them.
func (d *driver) step() error {
	d.wakeups = d.wakeups[:0]
	d.oracle.pauseWakeups = nil
	d.at = d.advanceClock()
	got, want, told := d.randomOp(d.at)
	told = append(d.oracle.pauseWakeups, told...)
	d.coverage[d.op]++
	d.countReason(want.reason)
	for _, h := range told {
		d.countReason(h.reason)
	}
	switch {
	case got != want:
		return fmt.Errorf("answered %+v, want %+v", got, want)
	case !slices.Equal(d.wakeups, told):
		return fmt.Errorf("told waiters %v, want %v", d.wakeups, told)
	case d.orderError != "":
		return fmt.Errorf("order: %s", d.orderError)
	case d.violation != "":
		return fmt.Errorf("the shadow disputes it: %s", d.violation)
	case d.badRefusal != "":
		return fmt.Errorf("told a waiter: %s", d.badRefusal)
	}
	return d.checkInvariants()
}

func (d *driver) countReason(r admission.Reason) {
	if r != admission.ReasonNone {
		d.coverage[r.String()]++
	}
}

// checkInvariants compares the gauges with a recount, and checks what must hold of any
// gate, whatever the oracle thinks.
func (d *driver) checkInvariants() error {
	o := d.oracle
	got := d.gate.Snapshot(o.now)
	got.Service = admission.Service{}
	want := admission.Snapshot{
		Mode: o.mode, Policy: o.rule.policy.Name(), Draining: o.draining, PausedUntil: o.pausedUntil, Workers: o.workers,
		InFlight: len(o.running), Depth: len(o.waiting),
		OldestAge: o.oldest(func(*job) bool { return true }),
	}
	switch {
	case got != want:
		return fmt.Errorf("gauges %+v, want %+v", got, want)
	case got.Depth > 0 && got.InFlight < got.Workers && got.PausedUntil.IsZero():
		return fmt.Errorf("%d wait though %d of %d permits are free", got.Depth, got.Workers-got.InFlight, got.Workers)
	case d.issued-d.finished != got.Depth+got.InFlight:
		return fmt.Errorf("%d tasks came in, %d left, but %d wait and %d run", d.issued, d.finished, got.Depth, got.InFlight)
	case got.Depth > o.limit:
		return fmt.Errorf("%d wait, the limit is %d", got.Depth, o.limit)
	}
	return nil
}

// waiterFor returns the waiter of j.
func (d *driver) waiterFor(j *job) admission.Waiter { return driverWaiter{d, j} }

type driverWaiter struct {
	d *driver
	j *job
}

// Done takes down what the waiter was told.
func (e driverWaiter) Done(r admission.Refusal) {
	e.d.wakeups = append(e.d.wakeups, wakeup{e.j.seq, r.Reason})
	if bad := refusalDefect(r); bad != "" {
		e.d.badRefusal = bad
	}
	if r.Reason == admission.ReasonNone {
		e.d.grant(e.j)
	} else {
		e.d.finishJob(e.j)
	}
}

// grant checks the order of grants by itself: as nobody overtakes anybody, the
// sequence numbers of grants only rise.
func (d *driver) grant(j *job) {
	if j.seq <= d.lastGranted {
		d.orderError = fmt.Sprintf("task %d got its permit after task %d", j.seq, d.lastGranted)
	}
	d.lastGranted = j.seq
}

// refusalDefect says what is wrong with a refusal, "" if nothing is.
func refusalDefect(r admission.Refusal) string {
	switch {
	case r.Reason == admission.ReasonNone && r.RetryAfter != 0:
		return fmt.Sprintf("Retry-After %s without a reason", r.RetryAfter)
	case r.Reason == admission.ReasonNone:
		return ""
	case r.RetryAfter < time.Second || r.RetryAfter > time.Minute || r.RetryAfter%time.Second != 0:
		return fmt.Sprintf("Retry-After %s is not whole seconds from 1 to 60", r.RetryAfter)
	}
	return ""
}

// pick returns a job of one of three kinds, mostly of the first; nil if the
// kind that was drawn is empty.
func (d *driver) pick(mostly, rarely []*job) *job {
	from := mostly
	switch d.src.draw(16) {
	case 0:
		from = rarely
	case 1:
		from = d.ended
	}
	if len(from) == 0 {
		return nil
	}
	return from[d.src.draw(len(from))]
}

// advanceClock moves the virtual clock, often not at all, sometimes to the very edge of
// a limit, and returns what to pass to the gate: rarely a time gone by.
func (d *driver) advanceClock() time.Time {
	switch d.src.draw(8 * d.opsPerTick) {
	case 0:
		d.advanceTo(d.clock.Add(time.Duration(d.src.draw(2000)) * time.Millisecond))
	case 1:
		d.advanceTo(d.clock.Add(time.Duration(d.src.draw(9)) * time.Second))
	case 2:
		if len(d.oracle.waiting) > 0 {
			d.advanceTo(d.nearEdge(d.oracle.waiting[0].arrived.Add(25 * time.Second)))
		}
	case 3:
		if !d.oracle.pausedUntil.IsZero() {
			d.advanceTo(d.nearEdge(d.oracle.pausedUntil))
		}
	case 4:
		if j := d.pick(d.oracle.waiting, d.oracle.running); j != nil && !j.deadline.IsZero() {
			d.advanceTo(d.nearEdge(j.deadline))
		}
	}
	if d.src.draw(32) == 0 {
		return d.clock.Add(-time.Duration(d.src.draw(100)) * time.Second)
	}
	return d.clock
}

// nearEdge returns at, or the nanosecond before it or after it.
func (d *driver) nearEdge(at time.Time) time.Time {
	return at.Add(time.Duration(d.src.draw(3) - 1))
}

func (d *driver) advanceTo(to time.Time) {
	if to.After(d.clock) {
		d.clock = to
	}
}
