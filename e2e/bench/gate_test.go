package bench

import (
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/bulkhead"

	"headgate/proxy/admission"
)

// permits is enough for every goroutine of the parallel runs.
const permits = 256

// pair are the two operations of one side: acquire and release a permit, or be refused.
type pair struct{ admitted, refused func() }

// BenchmarkGate compares one decision with those of failsafe-go. Ours checks queue, age, depth,
// deadline and mode, measures the service time, and computes Retry-After; all of that is
// measured, with reading the clock three times for an admitted task, as the proxy does.
func BenchmarkGate(b *testing.B) {
	ours := gate(b)
	b.Run("against=adaptive", func(b *testing.B) { comparePairs(b, ours, adaptive(b)) })
	b.Run("against=bulkhead", func(b *testing.B) { comparePairs(b, ours, bulk(b)) })
}

func comparePairs(b *testing.B, ours, theirs pair) {
	b.Run("admitted/alone", func(b *testing.B) { compare(b, ours.admitted, theirs.admitted, sequential) })
	b.Run("admitted/parallel", func(b *testing.B) { compare(b, ours.admitted, theirs.admitted, parallel) })
	b.Run("refused/alone", func(b *testing.B) { compare(b, ours.refused, theirs.refused, sequential) })
	b.Run("refused/parallel", func(b *testing.B) { compare(b, ours.refused, theirs.refused, parallel) })
}

// Each side of the comparison works: a thousand rounds lose no permit, and a full one refuses.
func TestPairs(t *testing.T) {
	for name, p := range map[string]pair{"gate": gate(t), "adaptive": adaptive(t), "bulkhead": bulk(t)} {
		for range 4 * permits {
			p.admitted()
			p.refused()
		}
		if t.Failed() {
			t.Fatalf("%s does not work", name)
		}
	}
}

// gate returns our side.
func gate(t testing.TB) pair {
	free, full := newGate(t), newGate(t)
	for full.Offer(time.Now(), admission.Task{}).Reason == admission.ReasonNone {
	}
	return pair{
		admitted: func() {
			d := free.Offer(time.Now(), admission.Task{})
			if d.Ticket == nil || d.Waiting || free.CheckDispatch(time.Now(), d.Ticket).Ticket == nil {
				t.Error("the gate did not let a task run")
				return
			}
			free.Release(time.Now(), d.Ticket, admission.Served)
		},
		refused: func() {
			if full.Offer(time.Now(), admission.Task{}).RetryAfter == 0 {
				t.Error("the gate did not refuse")
			}
		},
	}
}

func newGate(t testing.TB) *admission.Gate {
	policy, err := admission.NewThreshold(time.Hour, 2)
	if err != nil {
		t.Fatal(err)
	}
	g, err := admission.New(admission.Config{
		Workers: permits, Policy: policy, QueueLimit: 10_000, AssumedService: 15 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// adaptive returns failsafe-go's adaptive limiter, held at a fixed limit.
func adaptive(t testing.TB) pair {
	build := func() adaptivelimiter.AdaptiveLimiter[any] {
		return adaptivelimiter.NewBuilder[any]().WithLimits(permits, permits, permits).Build()
	}
	free, full := build(), build()
	for range permits {
		full.TryAcquirePermit()
	}
	return pair{
		admitted: func() {
			permit, ok := free.TryAcquirePermit()
			if !ok {
				t.Error("the adaptive limiter did not let a task run")
				return
			}
			permit.Record()
		},
		refused: func() {
			if _, ok := full.TryAcquirePermit(); ok {
				t.Error("the adaptive limiter did not refuse")
			}
		},
	}
}

// bulk returns failsafe-go's bulkhead, which counts permits and no more.
func bulk(t testing.TB) pair {
	free, full := bulkhead.New[any](permits), bulkhead.New[any](permits)
	for full.TryAcquirePermit() {
	}
	return pair{
		admitted: func() {
			if !free.TryAcquirePermit() {
				t.Error("the bulkhead did not let a task run")
				return
			}
			free.ReleasePermit()
		},
		refused: func() {
			if full.TryAcquirePermit() {
				t.Error("the bulkhead did not refuse")
			}
		},
	}
}
