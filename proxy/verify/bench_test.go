package verify_test

import (
	"testing"
	"time"

	"headgate/proxy/admit"
	"headgate/proxy/verify"
)

// BenchmarkWatched is a task that finds a free permit, and one that is refused,
// with a shadow and without one.
func BenchmarkWatched(b *testing.B) {
	for name, w := range map[string]func() admit.Watcher{
		"alone":   func() admit.Watcher { return nil },
		"watched": func() admit.Watcher { return verify.New() },
	} {
		b.Run("served "+name, func(b *testing.B) {
			g := watched(b, w())
			b.ReportAllocs()
			for b.Loop() {
				d := g.Offer(epoch, admit.Task{})
				g.Start(epoch, d.Ticket)
				g.Release(epoch, d.Ticket, admit.Served)
				g.Over(epoch, d.Ticket)
			}
		})
		b.Run("refused "+name, func(b *testing.B) {
			g := watched(b, w())
			for g.Offer(epoch, admit.Task{}).Reason == admit.ReasonNone {
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Offer(epoch, admit.Task{})
			}
		})
	}
}

func watched(b *testing.B, w admit.Watcher) *admit.Gate {
	b.Helper()
	g, err := admit.New(admit.Config{Workers: 16, Policy: article, QueueLimit: 1000, AssumedService: time.Second, Watcher: w})
	if err != nil {
		b.Fatal(err)
	}
	return g
}
