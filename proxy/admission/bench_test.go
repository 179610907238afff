package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

// nopWaiter is a waiter that does nothing.
type nopWaiter struct{}

func (nopWaiter) Done(admission.Refusal) {}

// BenchmarkGateOfferRelease is a task that finds a free permit.
func BenchmarkGateOfferRelease(b *testing.B) {
	g := newGate(b, admission.Config{Workers: 16})
	b.ReportAllocs()
	for b.Loop() {
		d := g.Offer(epoch, admission.Task{})
		g.CheckDispatch(epoch, d.Ticket)
		g.Release(epoch, d.Ticket, admission.Served)
	}
}

// BenchmarkGateRefused is a task that the rule turns away, by depth and by age.
func BenchmarkGateRefused(b *testing.B) {
	for name, age := range map[string]time.Duration{"depth": 0, "age": time.Minute} {
		b.Run(name, func(b *testing.B) {
			g := newGate(b, admission.Config{Workers: 16})
			offerN(g, 0, 16+33)
			b.ReportAllocs()
			for b.Loop() {
				if g.Offer(at(age), admission.Task{}).Reason == admission.ReasonNone {
					b.Fatal("was let in")
				}
			}
		})
	}
}

// BenchmarkGateParallel is a task that finds a free permit while others do.
func BenchmarkGateParallel(b *testing.B) {
	g := newGate(b, admission.Config{Workers: 1 << 10})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			d := g.Offer(epoch, admission.Task{})
			g.CheckDispatch(epoch, d.Ticket)
			g.Release(epoch, d.Ticket, admission.Served)
		}
	})
}

// BenchmarkGateQueued is a task that waits, behind others, and is granted the
// permit that another one gives back.
func BenchmarkGateQueued(b *testing.B) {
	for name, depth := range map[string]int{"behind 1": 1, "behind 1000": 1000} {
		b.Run(name, func(b *testing.B) {
			g := newGate(b, admission.Config{Policy: admission.None{}, QueueLimit: 1 << 20})
			line := make([]*admission.Ticket, depth+1)
			for i := range line {
				line[i] = g.Offer(epoch, admission.Task{Waiter: nopWaiter{}}).Ticket
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 1) % len(line) {
				last := g.Offer(epoch, admission.Task{Waiter: nopWaiter{}}).Ticket
				g.Release(epoch, line[i], admission.Served)
				line[i] = last
			}
		})
	}
}

// BenchmarkGateSnapshot is what reading the gauges costs.
func BenchmarkGateSnapshot(b *testing.B) {
	g := newGate(b, admission.Config{Workers: 16})
	offerN(g, 0, 16+33)
	b.ReportAllocs()
	for b.Loop() {
		if g.Snapshot(epoch).Depth != 33 {
			b.Fatal("lost count")
		}
	}
}
