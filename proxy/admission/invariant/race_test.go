package invariant_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// waiterChan is a waiter for goroutines.
type waiterChan chan admission.Refusal

func (m waiterChan) Done(r admission.Refusal) { m <- r }

// TestNoViolationUnderConcurrency: tasks come, run, leave and expire from many
// goroutines while settings change. The shadow hears of it in the gate's own
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
			for round := range rounds {
				r.task(id + round)
			}
		})
	}
	stop := r.reconfigureLoop()
	group.Wait()
	stop()
	if r.refused.Load() == 0 || r.dispatched.Load() == 0 {
		t.Errorf("%d refused by the queue, %d ran: nothing was tried", r.refused.Load(), r.dispatched.Load())
	}
}

// raceTest is a gate with a clock of which each look takes a nanosecond.
type raceTest struct {
	*testing.T
	gate                *admission.Gate
	ns                  atomic.Int64
	refused, dispatched atomic.Int64
}

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
	if r.gate.Start(r.now(), d.Ticket).Reason == admission.ReasonNone {
		r.dispatched.Add(1)
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
