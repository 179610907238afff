package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

// reentrantWaiter is a waiter that calls back into the gate while it is being told.
type reentrantWaiter struct {
	g     *admission.Gate
	d     admission.Decision
	calls int
}

func (n *reentrantWaiter) Done(r admission.Refusal) {
	n.calls++
	n.g.Snapshot(at(0))
	n.g.Refuse(at(0), admission.ReasonMemory, 0)
	n.g.SetMode(at(0), admission.Enforce)
	n.g.SetPolicy(at(0), defaultThreshold)
	if n.g.Cancel(at(0), n.d.Ticket) || n.g.Expire(at(0), n.d.Ticket) != (admission.Refusal{}) {
		panic("still waits, though it was told that it does not")
	}
	if r.Reason == admission.ReasonNone {
		n.g.Start(at(0), n.d.Ticket)
		n.g.Release(at(0), n.d.Ticket, admission.Served)
	}
}

// TestWaiterMayCallTheGate: waiters are told outside the lock, so one that
// calls back does not stop the gate, and everybody is told once, however the
// wait ended.
func TestWaiterMayCallTheGate(t *testing.T) {
	ways := map[string]func(*admission.Gate, *admission.Ticket){
		"release": func(g *admission.Gate, running *admission.Ticket) { g.Release(at(0), running, admission.Served) },
		"start":   func(g *admission.Gate, running *admission.Ticket) { g.Start(at(time.Hour), running) },
		"resize":  func(g *admission.Gate, _ *admission.Ticket) { _ = g.Resize(at(0), 50) },
		"drain":   func(g *admission.Gate, _ *admission.Ticket) { g.Drain(at(0)) },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			running := offer(g, 0, admission.Task{Deadline: at(time.Hour)})
			var waiters []*reentrantWaiter
			for range 3 {
				n := &reentrantWaiter{g: g}
				n.d = g.Offer(at(0), admission.Task{Waiter: n})
				waiters = append(waiters, n)
			}
			end(g, running.Ticket)
			for i, n := range waiters {
				if n.calls != 1 {
					t.Errorf("waiter %d was told %d times", i, n.calls)
				}
			}
			g.Release(at(0), running.Ticket, admission.Served)
			if s := g.Snapshot(at(0)); s.InFlight != 0 || s.Depth != 0 {
				t.Errorf("%d in flight, %d deep; want nothing left", s.InFlight, s.Depth)
			}
		})
	}
}

// TestTaskWithoutWaiter: who asks for nothing is told nothing.
func TestTaskWithoutWaiter(t *testing.T) {
	g := newGate(t, admission.Config{})
	running := g.Offer(at(0), admission.Task{})
	waits := g.Offer(at(0), admission.Task{})
	g.Release(at(0), running.Ticket, admission.Served)
	if !g.Release(at(0), waits.Ticket, admission.Served) {
		t.Fatal("the queued task got no permit")
	}
}

// TestQueuedBeforeTheGrant: the wait is 0 until it has ended in a permit.
func TestQueuedBeforeTheGrant(t *testing.T) {
	g := newGate(t, admission.Config{})
	running, v := offer(g, 0, admission.Task{}), offer(g, 0, admission.Task{})
	if running.Ticket.Queued() != 0 || v.Ticket.Queued() != 0 {
		t.Fatalf("queued for %s and %s, want 0", running.Ticket.Queued(), v.Ticket.Queued())
	}
	g.Cancel(at(time.Second), v.Ticket)
	if got := v.Ticket.Queued(); got != 0 {
		t.Fatalf("queued for %s though it never got a permit", got)
	}
}
