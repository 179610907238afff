package admission_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// subject is the gate, or something that pretends to be one: the driver must
// find the faults of the pretenders in mutant_test.go.
type subject interface {
	Offer(time.Time, admission.Task) admission.Decision
	CheckDispatch(time.Time, *admission.Ticket) admission.Decision
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
	violation        string    // the checker's objection to a refusal
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
	got, want, wakes := d.randomOp(d.at)
	wakes = append(d.oracle.pauseWakeups, wakes...)
	d.coverage[d.op]++
	d.countReason(want.reason)
	for _, h := range wakes {
		d.countReason(h.reason)
	}
	switch {
	case got != want:
		return fmt.Errorf("answered %+v, want %+v", got, want)
	case !slices.Equal(d.wakeups, wakes):
		return fmt.Errorf("waiters received %v, want %v", d.wakeups, wakes)
	case d.orderError != "":
		return fmt.Errorf("order: %s", d.orderError)
	case d.violation != "":
		return fmt.Errorf("violation: %s", d.violation)
	case d.badRefusal != "":
		return fmt.Errorf("a waiter received: %s", d.badRefusal)
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

// Done records what the waiter received.
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

// grant checks the order of grants by itself: as no task overtakes another, the
// sequence numbers of grants only rise.
func (d *driver) grant(j *job) {
	if j.seq <= d.lastGranted {
		d.orderError = fmt.Sprintf("task %d got its permit after task %d", j.seq, d.lastGranted)
	}
	d.lastGranted = j.seq
}

// refusalDefect describes an invalid refusal, "" for a valid one.
func refusalDefect(r admission.Refusal) string {
	switch {
	case r.Reason == admission.ReasonNone && r.RetryAfter != 0:
		return fmt.Sprintf("Retry-After %s without a reason", r.RetryAfter)
	case r.Reason == admission.ReasonNone:
		return ""
	case r.RetryAfter < time.Second || r.RetryAfter > 59*time.Second || r.RetryAfter%time.Second != 0:
		return fmt.Sprintf("Retry-After %s is not whole seconds from 1 to 59", r.RetryAfter)
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

// randomOp draws one thing to do, does it to the gate and to the oracle, and returns
// what both of them say, and what waiters ought to have heard.
func (d *driver) randomOp(at time.Time) (got, want answer, wakes []wakeup) {
	switch n := d.src.draw(100); {
	case n < 45:
		return d.offer(at)
	case n < 68:
		return d.release(at)
	case n < 78:
		return d.start(at)
	case n < 83:
		return d.leave(at)
	case n < 90:
		return d.expire(at)
	case n < 94:
		return d.resize(at)
	case n < 96:
		return d.setMode(at)
	case n < 97:
		return d.pause(at)
	case n < 99 || d.src.draw(8) != 0:
		return d.setPolicy(at)
	default:
		d.op = "drain"
		wakes = d.oracle.drain(at)
		d.gate.Drain(at)
		return got, want, wakes
	}
}

func (d *driver) offer(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "offer"
	j := &job{seq: d.offered, class: admission.Class(d.src.draw(2)), deadline: d.deadline()}
	d.offered++
	task := admission.Task{Class: j.class, Deadline: j.deadline, JitterSeed: uint64(j.seq), Waiter: d.waiterFor(j)}
	dec := d.gate.Offer(at, task)
	j.ticket, d.violation = dec.Ticket, dec.Violation
	if dec.Ticket != nil {
		d.issued++
	}
	if dec.Ticket != nil && !dec.Waiting {
		d.grant(j)
	}
	d.checkRefusal(dec.Refusal)
	want = d.oracle.offer(at, j)
	if want.would != admission.ReasonNone {
		d.coverage["would "+want.would.String()]++
	}
	return answerOf(dec), want, nil
}

// deadline draws one: none, long past, this very instant, or soon.
func (d *driver) deadline() time.Time {
	switch d.src.draw(8) {
	case 0:
		return d.clock
	case 1:
		return d.clock.Add(-time.Minute)
	case 2, 3:
		return time.Time{}
	default:
		return d.clock.Add(time.Duration(1+d.src.draw(60)) * time.Second)
	}
}

func (d *driver) start(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "start"
	j := d.pick(d.oracle.running, d.oracle.waiting)
	if j == nil {
		return got, want, nil
	}
	want, wakes = d.oracle.start(at, j)
	dec := d.gate.CheckDispatch(at, j.ticket)
	d.checkRefusal(dec.Refusal)
	if dec.Reason != admission.ReasonNone {
		d.finishJob(j)
	}
	return answerOf(dec), want, wakes
}

func (d *driver) release(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "release"
	j := d.pick(d.oracle.running, d.oracle.waiting)
	if j == nil {
		return got, want, nil
	}
	if q := j.ticket.Queued(); !j.granted.IsZero() && q != j.granted.Sub(j.arrived) {
		d.badRefusal = "queued for " + q.String() + ", want " + j.granted.Sub(j.arrived).String()
	}
	want, wakes = d.oracle.release(at, j)
	got.ok = d.gate.Release(at, j.ticket, admission.Sample(d.src.draw(2)))
	if got.ok {
		d.finishJob(j)
	}
	return got, want, wakes
}

func (d *driver) leave(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "leave"
	j := d.pick(d.oracle.waiting, d.oracle.running)
	if j == nil {
		return got, want, nil
	}
	want = d.oracle.leave(at, j)
	got.ok = d.gate.Cancel(at, j.ticket)
	if got.ok {
		d.finishJob(j)
	}
	return got, want, nil
}

func (d *driver) expire(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "expire"
	j := d.pick(d.oracle.waiting, d.oracle.running)
	if j == nil {
		return got, want, nil
	}
	want = d.oracle.expire(at, j)
	r := d.gate.Expire(at, j.ticket)
	d.checkRefusal(r)
	if r.Reason != admission.ReasonNone {
		d.finishJob(j)
	}
	return answer{reason: r.Reason}, want, nil
}

func (d *driver) resize(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "resize"
	workers := d.src.draw(8) - 1
	want, wakes = d.oracle.resize(at, workers)
	got.ok = d.gate.Resize(at, workers) == nil
	return got, want, wakes
}

func (d *driver) setMode(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "set mode"
	mode := admission.Modes()[d.src.draw(3)]
	want, wakes = d.oracle.setMode(at, mode)
	got.mode = d.gate.SetMode(at, mode)
	return got, want, wakes
}

// pause pauses the pool, sometimes until a time gone by, or resumes it.
func (d *driver) pause(at time.Time) (got, want answer, wakes []wakeup) {
	if d.src.draw(4) == 0 {
		d.op = "resume"
		wakes = d.oracle.pause(at, time.Time{})
		d.gate.Resume(at)
		return got, want, wakes
	}
	d.op = "pause"
	until := at.Add(time.Duration(d.src.draw(60)-5) * time.Second)
	wakes = d.oracle.pause(at, until)
	d.gate.Pause(at, until)
	return got, want, wakes
}

func (d *driver) setPolicy(at time.Time) (got, want answer, wakes []wakeup) {
	d.op = "set policy"
	d.oracle.advanceTo(at)
	d.oracle.rule = d.rules[d.src.draw(len(d.rules))]
	d.gate.SetPolicy(at, d.oracle.rule.policy)
	return got, want, nil
}

// checkRefusal takes down what is malformed about a refusal.
func (d *driver) checkRefusal(r admission.Refusal) {
	if bad := refusalDefect(r); bad != "" {
		d.badRefusal = bad
	}
}

// finishJob counts a ticket that has ended, and keeps a few of them for misuse.
func (d *driver) finishJob(j *job) {
	d.finished++
	d.gate.Finish(d.at, j.ticket)
	d.ended = append(d.ended, j)
	if len(d.ended) > 8 {
		d.ended = d.ended[1:]
	}
}

// answerOf puts a decision into the words of the oracle.
func answerOf(d admission.Decision) answer {
	return answer{reason: d.Reason, would: d.ObservedReason, waiting: d.Waiting, ticket: d.Ticket != nil}
}

// source is what a driver draws its choices from.
type source interface {
	// draw returns a number from 0 to n-1.
	draw(n int) int
	// empty reports that there is nothing left to draw from.
	empty() bool
}

// randSource is an endless source of seeded random choices.
type randSource struct{ *rand.Rand }

func newRandSource(seed uint64) randSource { return randSource{rand.New(rand.NewPCG(seed, 2))} }

func (d randSource) draw(n int) int { return d.IntN(n) }
func (randSource) empty() bool      { return false }

// byteSource is a source of choices that a fuzzer can write: one byte a choice.
type byteSource struct{ bytes []byte }

func (s *byteSource) draw(n int) int {
	if s.empty() {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % n
}

func (s *byteSource) empty() bool { return len(s.bytes) == 0 }

// maxStepsPerGate is how long one gate is driven at most.
const maxStepsPerGate = 2000

// totalSteps is how long all gates together are driven.
func totalSteps() int {
	if raceEnabled || testing.Short() {
		return 150_000
	}
	return 3_000_000
}

// newRealGate builds the gate itself.
func newRealGate(c admission.Config) subject {
	g, err := admission.New(c)
	if err != nil {
		panic(err)
	}
	return g
}

// modelRules are the policies that the driver switches between.
func modelRules() []rule {
	return []rule{thresholdRule(25*time.Second, 2), thresholdRule(3*time.Second, 1), noneRule()}
}

// driveAll drives gates between some policies for a number of steps, and
// returns how often it came across what. The first disagreement ends the test.
func driveAll(t *testing.T, most int, rules ...rule) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for steps, seed := 0, uint64(0); steps < most; seed++ {
		d := newDriver(newRandSource(seed), rules, newRealGate)
		if err := d.run(maxStepsPerGate); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for what, n := range d.coverage {
			seen[what] += n
		}
		steps += d.steps
	}
	return seen
}

// TestGateAgainstOracle does a few million random things to gates and compares
// every answer, grant and gauge with the oracle.
func TestGateAgainstOracle(t *testing.T) {
	seen := driveAll(t, totalSteps(), modelRules()...)
	for _, what := range []string{
		"offer", "start", "release", "leave", "expire", "resize", "set mode", "set policy", "pause", "resume", "drain",
		"queue_age", "queue_depth", "deadline_passed", "memory", "draining",
		"would queue_age", "would queue_depth", "would deadline_passed",
	} {
		if seen[what] == 0 {
			t.Errorf("the driver never came across %q", what)
		}
	}
	t.Logf("seen: %v", seen)
}

// FuzzGateAgainstOracle lets the fuzzer choose the operations.
func FuzzGateAgainstOracle(f *testing.F) {
	for seed := range uint64(8) {
		dice, bytes := newRandSource(seed), make([]byte, 400)
		for i := range bytes {
			bytes[i] = byte(dice.draw(256))
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if err := newDriver(&byteSource{bytes}, modelRules(), newRealGate).run(maxStepsPerGate); err != nil {
			t.Fatal(err)
		}
	})
}
