package invariant_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// BenchmarkWatched is a task that finds a free permit, and one that is refused,
// with a shadow and without one.
func BenchmarkWatched(b *testing.B) {
	for name, w := range map[string]func() admission.Watcher{
		"alone":   func() admission.Watcher { return nil },
		"watched": func() admission.Watcher { return invariant.New() },
	} {
		b.Run("served "+name, func(b *testing.B) {
			g := watched(b, w())
			b.ReportAllocs()
			for b.Loop() {
				d := g.Offer(epoch, admission.Task{})
				g.Start(epoch, d.Ticket)
				g.Release(epoch, d.Ticket, admission.Served)
				g.Over(epoch, d.Ticket)
			}
		})
		b.Run("refused "+name, func(b *testing.B) {
			g := watched(b, w())
			for g.Offer(epoch, admission.Task{}).Reason == admission.ReasonNone {
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Offer(epoch, admission.Task{})
			}
		})
	}
}

func watched(b *testing.B, w admission.Watcher) *admission.Gate {
	b.Helper()
	g, err := admission.New(admission.Config{Workers: 16, Policy: article, QueueLimit: 1000, AssumedService: time.Second, Watcher: w})
	if err != nil {
		b.Fatal(err)
	}
	return g
}
