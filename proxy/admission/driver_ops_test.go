package admission_test

import (
	"time"

	"headgate/proxy/admission"
)

// randomOp draws one thing to do, does it to the gate and to the oracle, and returns
// what both of them say, and what waiters ought to have heard.
func (d *driver) randomOp(at time.Time) (got, want answer, told []wakeup) {
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
		told = d.oracle.drain(at)
		d.gate.Drain(at)
		return got, want, told
	}
}

func (d *driver) offer(at time.Time) (got, want answer, told []wakeup) {
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

func (d *driver) start(at time.Time) (got, want answer, told []wakeup) {
	d.op = "start"
	j := d.pick(d.oracle.running, d.oracle.waiting)
	if j == nil {
		return got, want, nil
	}
	want, told = d.oracle.start(at, j)
	dec := d.gate.Start(at, j.ticket)
	d.checkRefusal(dec.Refusal)
	if dec.Reason != admission.ReasonNone {
		d.finishJob(j)
	}
	return answerOf(dec), want, told
}

func (d *driver) release(at time.Time) (got, want answer, told []wakeup) {
	d.op = "release"
	j := d.pick(d.oracle.running, d.oracle.waiting)
	if j == nil {
		return got, want, nil
	}
	if q := j.ticket.Queued(); !j.granted.IsZero() && q != j.granted.Sub(j.arrived) {
		d.badRefusal = "queued for " + q.String() + ", want " + j.granted.Sub(j.arrived).String()
	}
	want, told = d.oracle.release(at, j)
	got.ok = d.gate.Release(at, j.ticket, admission.Sample(d.src.draw(2)))
	if got.ok {
		d.finishJob(j)
	}
	return got, want, told
}

func (d *driver) leave(at time.Time) (got, want answer, told []wakeup) {
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

func (d *driver) expire(at time.Time) (got, want answer, told []wakeup) {
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

func (d *driver) resize(at time.Time) (got, want answer, told []wakeup) {
	d.op = "resize"
	workers := d.src.draw(8) - 1
	want, told = d.oracle.resize(at, workers)
	got.ok = d.gate.Resize(at, workers) == nil
	return got, want, told
}

func (d *driver) setMode(at time.Time) (got, want answer, told []wakeup) {
	d.op = "set mode"
	mode := admission.Modes()[d.src.draw(3)]
	want, told = d.oracle.setMode(at, mode)
	got.mode = d.gate.SetMode(at, mode)
	return got, want, told
}

// pause pauses the pool, sometimes until a time gone by, or resumes it.
func (d *driver) pause(at time.Time) (got, want answer, told []wakeup) {
	if d.src.draw(4) == 0 {
		d.op = "resume"
		told = d.oracle.pause(at, time.Time{})
		d.gate.Resume(at)
		return got, want, told
	}
	d.op = "pause"
	until := at.Add(time.Duration(d.src.draw(60)-5) * time.Second)
	told = d.oracle.pause(at, until)
	d.gate.Pause(at, until)
	return got, want, told
}

func (d *driver) setPolicy(at time.Time) (got, want answer, told []wakeup) {
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
