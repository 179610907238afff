package admit_test

import (
	"testing"
	"time"

	"headgate/proxy/admit"
)

// nosy is a waiter that calls back into the gate while it is being told.
type nosy struct {
	g     *admit.Gate
	d     admit.Decision
	calls int
}

func (n *nosy) Settled(r admit.Refusal) {
	n.calls++
	n.g.Snapshot(at(0))
	n.g.Refuse(at(0), admit.ReasonMemory, 0)
	n.g.SetMode(at(0), admit.Enforce)
	n.g.SetPolicy(at(0), article)
	if n.g.Leave(at(0), n.d.Ticket) || n.g.Expire(at(0), n.d.Ticket) != (admit.Refusal{}) {
		panic("still waits, though it was told that it does not")
	}
	if r.Reason == admit.ReasonNone {
		n.g.Start(at(0), n.d.Ticket)
		n.g.Release(at(0), n.d.Ticket, admit.Served)
	}
}

// TestWaiterMayCallTheGate: waiters are told outside the lock, so one that
// calls back does not stop the gate, and everybody is told once, however the
// wait ended.
func TestWaiterMayCallTheGate(t *testing.T) {
	ways := map[string]func(*admit.Gate, *admit.Ticket){
		"release": func(g *admit.Gate, running *admit.Ticket) { g.Release(at(0), running, admit.Served) },
		"start":   func(g *admit.Gate, running *admit.Ticket) { g.Start(at(time.Hour), running) },
		"resize":  func(g *admit.Gate, _ *admit.Ticket) { _ = g.Resize(at(0), 50) },
		"drain":   func(g *admit.Gate, _ *admit.Ticket) { g.Drain(at(0)) },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, admit.Config{})
			running := offer(g, 0, admit.Task{Deadline: at(time.Hour)})
			var waiters []*nosy
			for range 3 {
				n := &nosy{g: g}
				n.d = g.Offer(at(0), admit.Task{Waiter: n})
				waiters = append(waiters, n)
			}
			end(g, running.Ticket)
			for i, n := range waiters {
				if n.calls != 1 {
					t.Errorf("waiter %d was told %d times", i, n.calls)
				}
			}
			g.Release(at(0), running.Ticket, admit.Served)
			if s := g.Snapshot(at(0)); s.InFlight != 0 || s.Depth != 0 {
				t.Errorf("%d in flight, %d deep; want nothing left", s.InFlight, s.Depth)
			}
		})
	}
}

// TestTaskWithoutWaiter: who asks for nothing is told nothing.
func TestTaskWithoutWaiter(t *testing.T) {
	g := newGate(t, admit.Config{})
	running := g.Offer(at(0), admit.Task{})
	waits := g.Offer(at(0), admit.Task{})
	g.Release(at(0), running.Ticket, admit.Served)
	if !g.Release(at(0), waits.Ticket, admit.Served) {
		t.Fatal("the queued task got no permit")
	}
}

// TestQueuedBeforeTheGrant: the wait is 0 until it has ended in a permit.
func TestQueuedBeforeTheGrant(t *testing.T) {
	g := newGate(t, admit.Config{})
	running, v := offer(g, 0, admit.Task{}), offer(g, 0, admit.Task{})
	if running.Ticket.Queued() != 0 || v.Ticket.Queued() != 0 {
		t.Fatalf("queued for %s and %s, want 0", running.Ticket.Queued(), v.Ticket.Queued())
	}
	g.Leave(at(time.Second), v.Ticket)
	if got := v.Ticket.Queued(); got != 0 {
		t.Fatalf("queued for %s though it never got a permit", got)
	}
}
