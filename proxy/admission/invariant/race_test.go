package invariant_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// mailbox is a waiter for goroutines.
type mailbox chan admission.Refusal

func (m mailbox) Settled(r admission.Refusal) { m <- r }

// TestNothingIsDisputedInARace: tasks come, run, leave and expire from many
// goroutines while settings change. The shadow hears of it in the gate's own
// order, so that not one refusal looks wrong.
func TestNothingIsDisputedInARace(t *testing.T) {
	const goroutines, rounds = 48, 300
	g, err := admission.New(admission.Config{
		Workers: 3, Policy: admission.Threshold{MaxQueueAge: 300, DepthMultiple: 2}, QueueLimit: 40,
		AssumedService: time.Second, Watcher: invariant.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &race{T: t, gate: g}
	var group sync.WaitGroup
	for id := range goroutines {
		group.Go(func() {
			for round := range rounds {
				r.task(id + round)
			}
		})
	}
	stop := r.meddle()
	group.Wait()
	stop()
	if r.refused.Load() == 0 || r.ran.Load() == 0 {
		t.Errorf("%d refused by the queue, %d ran: nothing was tried", r.refused.Load(), r.ran.Load())
	}
}

// race is a gate with a clock of which each look takes a nanosecond.
type race struct {
	*testing.T
	gate         *admission.Gate
	ns           atomic.Int64
	refused, ran atomic.Int64
}

func (r *race) now() time.Time { return epoch.Add(time.Duration(r.ns.Add(1))) }

// task lives one task's life.
func (r *race) task(kind int) {
	m := make(mailbox, 1)
	task := admission.Task{Waiter: m, Class: admission.Class(kind % 2)}
	if kind%5 == 0 {
		task.Deadline = r.now().Add(100)
	}
	d := r.gate.Offer(r.now(), task)
	if d.Disputed != "" {
		r.Errorf("%s: %s", d.Reason, d.Disputed)
	}
	if d.Reason == admission.ReasonQueueAge || d.Reason == admission.ReasonQueueDepth {
		r.refused.Add(1)
	}
	if d.Ticket == nil {
		return
	}
	defer func() {
		r.gate.Release(r.now(), d.Ticket, admission.Served)
		r.gate.Over(r.now(), d.Ticket)
	}()
	if d.Waiting && !r.wait(kind, m, d.Ticket) {
		return
	}
	if r.gate.Start(r.now(), d.Ticket).Reason == admission.ReasonNone {
		r.ran.Add(1)
	}
}

// wait waits for a permit, not always to the end.
func (r *race) wait(kind int, m mailbox, t *admission.Ticket) bool {
	switch kind % 7 {
	case 0:
		if r.gate.Leave(r.now(), t) {
			return false
		}
	case 1:
		if r.gate.Expire(r.now(), t).Reason != admission.ReasonNone {
			return false
		}
	}
	return (<-m).Reason == admission.ReasonNone
}

// meddle changes workers, mode and pause all the time, until the returned
// function is called; that leaves a gate that grants.
func (r *race) meddle() (stop func()) {
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
