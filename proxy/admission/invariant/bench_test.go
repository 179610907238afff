package invariant_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// BenchmarkGateWithMonitor is a task that finds a free permit, and one that is refused,
// with a shadow and without one.
func BenchmarkGateWithMonitor(b *testing.B) {
	for name, w := range map[string]func() admission.Monitor{
		"alone":   func() admission.Monitor { return nil },
		"watched": func() admission.Monitor { return invariant.New() },
	} {
		b.Run("served "+name, func(b *testing.B) {
			g := newGateWith(b, w())
			b.ReportAllocs()
			for b.Loop() {
				d := g.Offer(epoch, admission.Task{})
				g.Start(epoch, d.Ticket)
				g.Release(epoch, d.Ticket, admission.Served)
				g.Finish(epoch, d.Ticket)
			}
		})
		b.Run("refused "+name, func(b *testing.B) {
			g := newGateWith(b, w())
			for g.Offer(epoch, admission.Task{}).Reason == admission.ReasonNone {
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Offer(epoch, admission.Task{})
			}
		})
	}
}

func newGateWith(b *testing.B, w admission.Monitor) *admission.Gate {
	b.Helper()
	g, err := admission.New(admission.Config{Workers: 16, Policy: defaultThreshold, QueueLimit: 1000, AssumedService: time.Second, Monitor: w})
	if err != nil {
		b.Fatal(err)
	}
	return g
}
