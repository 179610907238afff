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
	Release(time.Time, *admission.Ticket, admission.Ending) bool
	Leave(time.Time, *admission.Ticket) bool
	Expire(time.Time, *admission.Ticket) admission.Refusal
	Resize(time.Time, int) error
	SetMode(time.Time, admission.Mode) admission.Mode
	Pause(now, until time.Time)
	Resume(time.Time)
	Over(time.Time, *admission.Ticket)
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

	calm  int       // how much happens in one instant: fuller queues, or older ones
	clock time.Time // of the driver; what it passes may lie before it
	op    string    // what was done last
	steps int       // so far
	after int       // of them after Drain
	seen  map[string]int

	offered int       // tasks so far
	in, out int       // tickets issued, and tickets that have come to their end
	ended   []*job    // some that have left, to be misused
	heard   []heard   // what waiters heard since the last step
	badWait string    // a malformed Retry-After that a waiter heard
	dispute string    // what the shadow has against a refusal
	at      time.Time // what is passed to the gate in this step

	granted  int // sequence number of the latest grant, -1 before the first
	overtook string
}

// newDriver returns a driver over a gate that build makes from the first rule.
func newDriver(src source, rules []rule, build func(admission.Config) subject) *driver {
	workers, limit := 1+src.draw(5), 1+src.draw(30)
	return &driver{
		src: src, rules: rules, clock: epoch, calm: 1 + src.draw(8), granted: -1,
		seen:   map[string]int{},
		oracle: &oracle{rule: rules[0], workers: workers, limit: limit},
		gate: build(admission.Config{
			Workers: workers, QueueLimit: limit, Policy: rules[0].policy, AssumedService: 15 * time.Second,
			Watcher: invariant.New(),
		}),
	}
}

// run takes up to n steps, few of them after a drain, and returns the first
// disagreement.
func (d *driver) run(n int) error {
	for ; d.steps < n && d.after < 50 && !d.src.empty(); d.steps++ {
		if err := d.step(); err != nil {
			return fmt.Errorf("step %d, %s: %w", d.steps, d.op, err)
		}
		if d.oracle.draining {
			d.after++
		}
	}
	return nil
}

// step does one thing to both sides and compares them.
func (d *driver) step() error {
	d.heard = d.heard[:0]
	d.oracle.woken = nil
	d.at = d.tick()
	got, want, told := d.act(d.at)
	told = append(d.oracle.woken, told...)
	d.seen[d.op]++
	d.note(want.reason)
	for _, h := range told {
		d.note(h.reason)
	}
	switch {
	case got != want:
		return fmt.Errorf("answered %+v, want %+v", got, want)
	case !slices.Equal(d.heard, told):
		return fmt.Errorf("told waiters %v, want %v", d.heard, told)
	case d.overtook != "":
		return fmt.Errorf("order: %s", d.overtook)
	case d.dispute != "":
		return fmt.Errorf("the shadow disputes it: %s", d.dispute)
	case d.badWait != "":
		return fmt.Errorf("told a waiter: %s", d.badWait)
	}
	return d.recount()
}

func (d *driver) note(r admission.Reason) {
	if r != admission.ReasonNone {
		d.seen[r.String()]++
	}
}

// recount compares the gauges with a recount, and checks what must hold of any
// gate, whatever the oracle thinks.
func (d *driver) recount() error {
	o := d.oracle
	got := d.gate.Snapshot(o.now)
	got.Service = admission.Service{}
	want := admission.Snapshot{
		Mode: o.mode, Policy: o.rule.policy.Name(), Draining: o.draining, Paused: o.paused, Workers: o.workers,
		InFlight: len(o.running), Depth: len(o.waiting),
		Oldest: o.oldest(func(*job) bool { return true }),
	}
	switch {
	case got != want:
		return fmt.Errorf("gauges %+v, want %+v", got, want)
	case got.Depth > 0 && got.InFlight < got.Workers && got.Paused.IsZero():
		return fmt.Errorf("%d wait though %d of %d permits are free", got.Depth, got.Workers-got.InFlight, got.Workers)
	case d.in-d.out != got.Depth+got.InFlight:
		return fmt.Errorf("%d tasks came in, %d left, but %d wait and %d run", d.in, d.out, got.Depth, got.InFlight)
	case got.Depth > o.limit:
		return fmt.Errorf("%d wait, the limit is %d", got.Depth, o.limit)
	}
	return nil
}

// listen returns the waiter of j.
func (d *driver) listen(j *job) admission.Waiter { return ear{d, j} }

type ear struct {
	d *driver
	j *job
}

// Settled takes down what the waiter was told.
func (e ear) Settled(r admission.Refusal) {
	e.d.heard = append(e.d.heard, heard{e.j.seq, r.Reason})
	if bad := malformed(r); bad != "" {
		e.d.badWait = bad
	}
	if r.Reason == admission.ReasonNone {
		e.d.grant(e.j)
	} else {
		e.d.bury(e.j)
	}
}

// grant checks the order of grants by itself: as nobody overtakes anybody, the
// sequence numbers of grants only rise.
func (d *driver) grant(j *job) {
	if j.seq <= d.granted {
		d.overtook = fmt.Sprintf("task %d got its permit after task %d", j.seq, d.granted)
	}
	d.granted = j.seq
}

// malformed says what is wrong with a refusal, "" if nothing is.
func malformed(r admission.Refusal) string {
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

// tick moves the virtual clock, often not at all, sometimes to the very edge of
// a limit, and returns what to pass to the gate: rarely a time gone by.
func (d *driver) tick() time.Time {
	switch d.src.draw(8 * d.calm) {
	case 0:
		d.forward(d.clock.Add(time.Duration(d.src.draw(2000)) * time.Millisecond))
	case 1:
		d.forward(d.clock.Add(time.Duration(d.src.draw(9)) * time.Second))
	case 2:
		if len(d.oracle.waiting) > 0 {
			d.forward(d.edge(d.oracle.waiting[0].arrived.Add(25 * time.Second)))
		}
	case 3:
		if !d.oracle.paused.IsZero() {
			d.forward(d.edge(d.oracle.paused))
		}
	case 4:
		if j := d.pick(d.oracle.waiting, d.oracle.running); j != nil && !j.deadline.IsZero() {
			d.forward(d.edge(j.deadline))
		}
	}
	if d.src.draw(32) == 0 {
		return d.clock.Add(-time.Duration(d.src.draw(100)) * time.Second)
	}
	return d.clock
}

// edge returns at, or the nanosecond before it or after it.
func (d *driver) edge(at time.Time) time.Time {
	return at.Add(time.Duration(d.src.draw(3) - 1))
}

func (d *driver) forward(to time.Time) {
	if to.After(d.clock) {
		d.clock = to
	}
}
