//go:build !race

package admission_test

import (
	"testing"

	"headgate/proxy/admission"
)

// TestAllocations: a task costs its ticket and nothing else; a refusal nothing.
// The race detector allocates on its own account, so this is not built with it.
func TestAllocations(t *testing.T) {
	idle, full := newGate(t, admission.Config{}), newGate(t, admission.Config{})
	offerN(full, 0, 4)
	queueing := newGate(t, admission.Config{Policy: admission.None{}})
	holder := queueing.Offer(at(0), admission.Task{}).Ticket
	tests := []struct {
		name string
		most float64
		life func()
	}{
		{"offer, start, release", 1, func() {
			d := idle.Offer(at(0), admission.Task{})
			idle.CheckDispatch(at(0), d.Ticket)
			idle.Release(at(0), d.Ticket, admission.Served)
		}},
		{"refused", 0, func() {
			if full.Offer(at(0), admission.Task{}).Reason == admission.ReasonNone {
				panic("came in")
			}
		}},
		{"queued, granted, released", 1, func() {
			next := queueing.Offer(at(0), admission.Task{}).Ticket
			queueing.Release(at(0), holder, admission.Served)
			holder = next
		}},
		{"queued, left", 1, func() {
			queueing.Cancel(at(0), queueing.Offer(at(0), admission.Task{}).Ticket)
		}},
		{"snapshot", 0, func() { full.Snapshot(at(0)) }},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(1000, tt.life); got > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.most)
		}
	}
}
