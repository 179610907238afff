package bench

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// batch is how many calls are timed at once, so that reading the clock costs little.
const batch = 500

// compare runs both sides in turn, a batch of calls at a time, and reports the time per call,
// the ratio, and the allocations.
func compare(b *testing.B, ours, theirs func(), run func(func()) time.Duration) {
	b.Helper()
	var a, c time.Duration
	for b.Loop() {
		a += run(ours)
		c += run(theirs)
	}
	calls := float64(b.N) * batch
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(a.Nanoseconds())/calls, "ours-ns")
	b.ReportMetric(float64(c.Nanoseconds())/calls, "theirs-ns")
	b.ReportMetric(float64(a)/float64(c), "ours/theirs")
	b.ReportMetric(testing.AllocsPerRun(100, ours), "ours-allocs")
	b.ReportMetric(testing.AllocsPerRun(100, theirs), "theirs-allocs")
}

// sequential returns the time of one batch of calls in one goroutine.
func sequential(call func()) time.Duration {
	start := time.Now()
	for range batch {
		call()
	}
	return time.Since(start)
}

// parallel returns the time of one batch of calls in each of as many goroutines as there are
// processors.
func parallel(call func()) time.Duration {
	var group sync.WaitGroup
	start := time.Now()
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for range batch {
				call()
			}
		})
	}
	group.Wait()
	return time.Since(start)
}
