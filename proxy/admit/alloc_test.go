//go:build !race

package admit_test

import (
	"testing"

	"headgate/proxy/admit"
)

// TestAllocations: a task costs its ticket and nothing else; a refusal nothing.
// The race detector allocates on its own account, so this is not built with it.
func TestAllocations(t *testing.T) {
	idle, full := newGate(t, admit.Config{}), newGate(t, admit.Config{})
	crowd(full, 0, 4)
	queueing := newGate(t, admit.Config{Policy: admit.None{}})
	holder := queueing.Offer(at(0), admit.Task{}).Ticket
	tests := []struct {
		name string
		most float64
		life func()
	}{
		{"offer, start, release", 1, func() {
			d := idle.Offer(at(0), admit.Task{})
			idle.Start(at(0), d.Ticket)
			idle.Release(at(0), d.Ticket, admit.Served)
		}},
		{"refused", 0, func() {
			if full.Offer(at(0), admit.Task{}).Reason == admit.ReasonNone {
				panic("came in")
			}
		}},
		{"queued, granted, released", 1, func() {
			next := queueing.Offer(at(0), admit.Task{}).Ticket
			queueing.Release(at(0), holder, admit.Served)
			holder = next
		}},
		{"queued, left", 1, func() {
			queueing.Leave(at(0), queueing.Offer(at(0), admit.Task{}).Ticket)
		}},
		{"snapshot", 0, func() { full.Snapshot(at(0)) }},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(1000, tt.life); got > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.most)
		}
	}
}
