package admission_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// waiterChan is a waiter for goroutines.
type waiterChan chan admission.Refusal

func (m waiterChan) Done(r admission.Refusal) { m <- r }

// atomicClock is a clock for goroutines: each look at it takes a nanosecond.
type atomicClock struct{ ns atomic.Int64 }

func (c *atomicClock) now() time.Time { return at(time.Duration(c.ns.Add(1))) }

// peakGauge counts the goroutines inside and keeps the maximum, without
// believing the gate.
type peakGauge struct{ now, max atomic.Int64 }

// run enters, yields, and leaves.
func (p *peakGauge) run() {
	n := p.now.Add(1)
	for most := p.max.Load(); n > most && !p.max.CompareAndSwap(most, n); most = p.max.Load() {
	}
	runtime.Gosched()
	p.now.Add(-1)
}

// TestThousandGoroutines: 1,000 goroutines, 8 workers, never more than 8 inside.
func TestThousandGoroutines(t *testing.T) {
	const goroutines, workers, rounds = 1000, 8, 5
	g := newGate(t, admission.Config{Workers: workers, Policy: admission.None{}})
	var clock atomicClock
	var inside peakGauge
	var served atomic.Int64
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for range rounds {
				m := make(waiterChan, 1)
				d := g.Offer(clock.now(), admission.Task{Waiter: m})
				if d.Waiting {
					<-m
				}
				if d.Ticket == nil || g.CheckDispatch(clock.now(), d.Ticket).Reason != admission.ReasonNone {
					t.Error("policy none refused a task")
					return
				}
				inside.run()
				served.Add(1)
				g.Release(clock.now(), d.Ticket, admission.Served)
			}
		})
	}
	group.Wait()
	if most := inside.max.Load(); most > workers || most < 1 {
		t.Errorf("%d were inside at once, want 1 to %d", most, workers)
	}
	if got := served.Load(); got != goroutines*rounds {
		t.Errorf("%d were served, want %d", got, goroutines*rounds)
	}
	wantEmpty(t, g)
}

// TestGrantAgainstLeave: grants, departures and expiries meet at the same
// instant. Each task ends exactly once, no permit is lost, none counted twice.
func TestGrantAgainstLeave(t *testing.T) {
	const goroutines, workers = 64, 3
	rounds := 400
	if raceEnabled {
		rounds = 150
	}
	g := newGate(t, admission.Config{Workers: workers, Policy: admission.Threshold{MaxQueueAge: time.Hour, DepthMultiple: 1000}})
	var clock atomicClock
	var inside peakGauge
	var ends [4]atomic.Int64 // refused, left, expired, ran
	var group sync.WaitGroup
	for id := range goroutines {
		group.Go(func() {
			for round := range rounds {
				ends[runTask(t, g, &clock, &inside, id+round)].Add(1)
			}
		})
	}
	stop := resizeLoop(g, &clock, workers)
	group.Wait()
	stop()
	var sum int64
	for i := range ends {
		sum += ends[i].Load()
	}
	if want := int64(goroutines * rounds); sum != want {
		t.Errorf("%d tasks ended, want %d", sum, want)
	}
	if most := inside.max.Load(); most > workers {
		t.Errorf("%d were inside at once, want at most %d", most, workers)
	}
	if ends[3].Load() == 0 {
		t.Error("no task ran")
	}
	t.Logf("refused %d, left %d, expired %d, ran %d", ends[0].Load(), ends[1].Load(), ends[2].Load(), ends[3].Load())
	wantEmpty(t, g)
}

// runTask lives one task's life, and returns how it ended: 0 refused, 1 left,
// 2 expired, 3 ran.
func runTask(t *testing.T, g *admission.Gate, clock *atomicClock, inside *peakGauge, kind int) int {
	m := make(waiterChan, 1)
	task := admission.Task{Waiter: m, Class: admission.Class(kind % 2)}
	if kind%3 == 0 {
		task.Deadline = clock.now().Add(100)
	}
	d := g.Offer(clock.now(), task)
	if d.Ticket == nil {
		return 0
	}
	if d.Waiting {
		switch end := awaitPermit(t, g, clock, m, d.Ticket, kind); end {
		case 0, 1, 2:
			return end
		}
	}
	if g.CheckDispatch(clock.now(), d.Ticket).Reason != admission.ReasonNone {
		if g.Release(clock.now(), d.Ticket, admission.Dropped) {
			t.Error("a permit came back twice")
		}
		return 2
	}
	inside.run()
	var first atomic.Int64
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if g.Release(clock.now(), d.Ticket, admission.Served) {
				first.Add(1)
			}
		})
	}
	both.Wait()
	if first.Load() != 1 {
		t.Errorf("%d of two releases counted, want one", first.Load())
	}
	return 3
}

// awaitPermit waits for a permit, not always to the end. Who is not taken out by
// Cancel or Expire must be notified, once.
func awaitPermit(t *testing.T, g *admission.Gate, clock *atomicClock, m waiterChan, ticket *admission.Ticket, kind int) int {
	switch kind % 4 {
	case 0:
		if g.Cancel(clock.now(), ticket) {
			return 1
		}
	case 1:
		if g.Expire(clock.now(), ticket).Reason != admission.ReasonNone {
			return 2
		}
	}
	r := <-m
	select {
	case again := <-m:
		t.Errorf("received %+v, then %+v", r, again)
	default:
	}
	if r.Reason != admission.ReasonNone {
		return 2
	}
	return 3
}

// resizeLoop changes the number of workers all the time, up to a number, until
// the returned function is called; that leaves the number as it was.
func resizeLoop(g *admission.Gate, clock *atomicClock, workers int) (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				_ = g.Resize(clock.now(), 1+i%workers)
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// wantEmpty checks that nothing is left in the gate.
func wantEmpty(t *testing.T, g *admission.Gate) {
	t.Helper()
	if s := g.Snapshot(at(0)); s.InFlight != 0 || s.Depth != 0 || s.OldestAge != 0 {
		t.Errorf("in flight %d, depth %d, oldest %s; want 0", s.InFlight, s.Depth, s.OldestAge)
	}
}
