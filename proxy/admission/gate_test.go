package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

func TestNewRefusesNonsense(t *testing.T) {
	good := admission.Config{Workers: 4, Policy: defaultThreshold, QueueLimit: 10, AssumedService: time.Second}
	if _, err := admission.New(good); err != nil {
		t.Fatalf("a good config is refused: %v", err)
	}
	tests := []struct {
		field string
		spoil func(*admission.Config)
	}{
		{"workers", func(c *admission.Config) { c.Workers = 0 }},
		{"workers", func(c *admission.Config) { c.Workers = -4 }},
		{"policy", func(c *admission.Config) { c.Policy = nil }},
		{"mode", func(c *admission.Config) { c.Mode = admission.PassThrough + 1 }},
		{"passthrough_queue", func(c *admission.Config) { c.QueueLimit = 0 }},
		{"passthrough_queue", func(c *admission.Config) { c.QueueLimit = -1 }},
		{"assumed_service", func(c *admission.Config) { c.AssumedService = 0 }},
		{"assumed_service", func(c *admission.Config) { c.AssumedService = -time.Second }},
	}
	for _, tt := range tests {
		c := good
		tt.spoil(&c)
		g, err := admission.New(c)
		wantField(t, err, tt.field)
		if g != nil {
			t.Errorf("%s: a gate beside the error", tt.field)
		}
	}
}

// TestBurstInOneInstant: 100 arrivals at once, 8 workers.
func TestBurstInOneInstant(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 8})
	running, waiting, refused := 0, 0, 0
	for _, v := range offerN(g, 0, 100) {
		switch {
		case v.Reason != admission.ReasonNone:
			refused++
		case v.Waiting:
			waiting++
		default:
			running++
		}
	}
	if running != 8 || waiting != 17 || refused != 75 {
		t.Fatalf("%d run, %d wait, %d refused; want 8, 17, 75", running, waiting, refused)
	}
	wantGauges(t, g, 0, 8, 17, 0)
}

func TestGrantsInOrderOfArrival(t *testing.T) {
	g := newGate(t, admission.Config{})
	now := offer(g, 0, admission.Task{})
	var queue []*submission
	for i := range 3 {
		queue = append(queue, offer(g, time.Duration(i+1)*time.Second, admission.Task{Class: admission.Class(i % 2)}))
	}
	for i, next := range queue {
		next.wantWaiting(t)
		d := time.Duration(i+10) * time.Second
		if !g.Release(at(d), now.Ticket, admission.Served) {
			t.Fatalf("task %d held no permit", i)
		}
		next.wantReason(t, admission.ReasonNone)
		if got, want := next.Ticket.Queued(), d-time.Duration(i+1)*time.Second; got != want {
			t.Fatalf("queued for %s, want %s", got, want)
		}
		now = next
	}
	g.Release(at(20*time.Second), now.Ticket, admission.Served)
	wantGauges(t, g, 20*time.Second, 0, 0, 0)
}

// TestEverythingCancelled: whatever is cancelled, or ended twice, the gauges
// come back to exactly 0.
func TestEverythingCancelled(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 2})
	all := offerN(g, 0, 7)
	wantGauges(t, g, time.Second, 2, 5, time.Second)
	for range 2 {
		for i := len(all) - 1; i >= 0; i-- {
			if !g.Cancel(at(time.Second), all[i].Ticket) {
				g.Release(at(time.Second), all[i].Ticket, admission.Dropped)
			}
		}
		want := admission.Snapshot{Policy: "threshold", Workers: 2, Service: admission.Service{Mean: 10 * time.Second}}
		if got := g.Snapshot(at(time.Second)); got != want {
			t.Fatalf("state is %+v, want %+v", got, want)
		}
	}
	for i, v := range all {
		if len(v.received) != 0 {
			t.Errorf("task %d was told %v though it had left", i, v.received)
		}
	}
}

func TestReleaseCountsOnce(t *testing.T) {
	g := newGate(t, admission.Config{})
	v, next := offer(g, 0, admission.Task{}), offer(g, 0, admission.Task{})
	last := offer(g, 0, admission.Task{})
	if g.Release(at(1), next.Ticket, admission.Served) {
		t.Fatal("a waiting task gave back a permit")
	}
	if !g.Release(at(1), v.Ticket, admission.Served) || g.Release(at(2), v.Ticket, admission.Dropped) {
		t.Fatal("want exactly the first release to count")
	}
	next.wantReason(t, admission.ReasonNone)
	last.wantWaiting(t)
	if g.Cancel(at(2), next.Ticket) {
		t.Fatal("a running task left the queue")
	}
	wantGauges(t, g, 2, 1, 1, 2)
}

// TestCancelFreesQueuePosition: one worker busy, a queued client leaves.
func TestCancelFreesQueuePosition(t *testing.T) {
	g := newGate(t, admission.Config{})
	running := offer(g, 0, admission.Task{})
	gone, stays := offer(g, 0, admission.Task{}), offer(g, 3*time.Second, admission.Task{})
	if !g.Cancel(at(4*time.Second), gone.Ticket) || g.Cancel(at(4*time.Second), gone.Ticket) {
		t.Fatal("want exactly the first departure to count")
	}
	wantGauges(t, g, 4*time.Second, 1, 1, time.Second)
	g.Release(at(4*time.Second), running.Ticket, admission.Served)
	stays.wantReason(t, admission.ReasonNone)
	if len(gone.received) != 0 {
		t.Fatalf("who had left was told %v", gone.received)
	}
	if g.Release(at(5*time.Second), gone.Ticket, admission.Served) {
		t.Fatal("who had left gave back a permit")
	}
}

func TestServiceIsLearntFromServedTasksOnly(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 2})
	a, b := offer(g, 0, admission.Task{}), offer(g, 0, admission.Task{})
	g.Release(at(time.Hour), a.Ticket, admission.Dropped)
	if s := g.Snapshot(at(time.Hour)).Service; s.Measured || s.Mean != 10*time.Second {
		t.Fatalf("learnt %+v from a dropped task", s)
	}
	g.Release(at(time.Hour), b.Ticket, admission.Served)
	if s := g.Snapshot(at(time.Hour)).Service; !s.Measured || s.Mean != time.Hour || s.StdDev != 0 {
		t.Fatalf("learnt %+v from one task of an hour", s)
	}
}

// TestServiceMeanAndDeviation compares with plain averages, while there are few
// tasks, and shows that the distant past is forgotten.
func TestServiceMeanAndDeviation(t *testing.T) {
	g := newGate(t, admission.Config{})
	now := time.Duration(0)
	serve := func(d time.Duration) {
		v := offer(g, now, admission.Task{})
		now += d
		g.Release(at(now), v.Ticket, admission.Served)
	}
	for _, s := range []int{2, 4, 4, 4, 5, 5, 7, 9} { // mean 5, deviation 2
		serve(time.Duration(s) * time.Second)
	}
	s := g.Snapshot(at(now)).Service
	if (s.Mean-5*time.Second).Abs() > time.Microsecond || (s.StdDev-2*time.Second).Abs() > time.Microsecond {
		t.Fatalf("mean %s, deviation %s; want 5s and 2s", s.Mean, s.StdDev)
	}
	for range 1000 {
		serve(20 * time.Second)
	}
	s = g.Snapshot(at(now)).Service
	if (s.Mean-20*time.Second).Abs() > time.Millisecond || s.StdDev > 100*time.Millisecond {
		t.Fatalf("mean %s, deviation %s; want 20s and next to none", s.Mean, s.StdDev)
	}
}

// TestServiceIsTimeUnderPermit shows that waiting is no service.
func TestServiceIsTimeUnderPermit(t *testing.T) {
	g := newGate(t, admission.Config{})
	a, b := offer(g, 0, admission.Task{}), offer(g, 0, admission.Task{})
	g.Release(at(20*time.Second), a.Ticket, admission.Dropped)
	g.Release(at(23*time.Second), b.Ticket, admission.Served)
	if s := g.Snapshot(at(23 * time.Second)).Service; s.Mean != 3*time.Second {
		t.Fatalf("mean is %s, want the 3s under the permit", s.Mean)
	}
}

// TestClockNeverRunsBackwards: a time before the latest one seen counts as the
// latest one, so no age, wait or service time is negative.
func TestClockNeverRunsBackwards(t *testing.T) {
	g := newGate(t, admission.Config{})
	a := offer(g, time.Minute, admission.Task{})
	b := offer(g, 30*time.Second, admission.Task{})
	wantGauges(t, g, 0, 1, 1, 0)
	wantGauges(t, g, 70*time.Second, 1, 1, 10*time.Second)
	wantGauges(t, g, 61*time.Second, 1, 1, 10*time.Second)
	g.Release(at(0), a.Ticket, admission.Served)
	b.wantReason(t, admission.ReasonNone)
	if got := b.Ticket.Queued(); got != 10*time.Second {
		t.Fatalf("queued for %s, want 10s", got)
	}
	g.Release(at(-time.Hour), b.Ticket, admission.Served)
	if s := g.Snapshot(at(0)).Service; s.Mean != 5*time.Second {
		t.Fatalf("mean is %s, want 5s of 10s and 0s", s.Mean)
	}
}
