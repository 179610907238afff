package admission_test

import (
	"strings"
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
			t.Errorf("task %d received %v though it had left", i, v.received)
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
		t.Fatalf("a cancelled waiter received %v", gone.received)
	}
	if g.Release(at(5*time.Second), gone.Ticket, admission.Served) {
		t.Fatal("a cancelled task released a permit")
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

func TestResizeUpGrants(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 1, Policy: admission.None{}})
	all := offerN(g, 0, 6)
	if err := g.Resize(at(time.Second), 4); err != nil {
		t.Fatal(err)
	}
	for _, v := range all[1:4] {
		v.wantReason(t, admission.ReasonNone)
		if got := v.Ticket.Queued(); got != time.Second {
			t.Fatalf("queued for %s, want 1s", got)
		}
	}
	all[4].wantWaiting(t)
	wantGauges(t, g, time.Second, 4, 2, time.Second)
}

// TestResizeDown: nothing is taken away, and nothing is dispatched above the
// new number until enough permits have come back.
func TestResizeDown(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 4, Policy: admission.None{}})
	all := offerN(g, 0, 5)
	if err := g.Resize(at(0), 2); err != nil {
		t.Fatal(err)
	}
	wantGauges(t, g, 0, 4, 1, 0)
	for _, left := range []int{3, 2} {
		g.Release(at(0), all[left].Ticket, admission.Served)
		wantGauges(t, g, 0, left, 1, 0)
		all[4].wantWaiting(t)
	}
	offer(g, 0, admission.Task{}).wantWaiting(t)
	g.Release(at(0), all[1].Ticket, admission.Served)
	all[4].wantReason(t, admission.ReasonNone)
	wantGauges(t, g, 0, 2, 1, 0)
}

func TestResizeRefusesNonsense(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 3})
	for _, workers := range []int{0, -1} {
		wantField(t, g.Resize(at(0), workers), "workers")
	}
	if got := g.Snapshot(at(0)).Workers; got != 3 {
		t.Fatalf("%d workers after refused changes, want 3", got)
	}
}

// overload returns a gate in a mode that the threshold policy would close: one
// task runs, three wait, the oldest for 30 s.
func overload(t *testing.T, m admission.Mode) *admission.Gate {
	t.Helper()
	g := newGate(t, admission.Config{Mode: m, QueueLimit: 5})
	offerN(g, 0, 4)
	wantGauges(t, g, 30*time.Second, 1, 3, 30*time.Second)
	return g
}

func TestModesAtOffer(t *testing.T) {
	tests := []struct {
		mode           admission.Mode
		refused, would admission.Reason
	}{
		{admission.Enforce, admission.ReasonQueueAge, admission.ReasonNone},
		{admission.Observe, admission.ReasonNone, admission.ReasonQueueAge},
		{admission.PassThrough, admission.ReasonNone, admission.ReasonNone},
	}
	for _, tt := range tests {
		t.Run(tt.mode.String(), func(t *testing.T) {
			v := offer(overload(t, tt.mode), 30*time.Second, admission.Task{})
			if v.Reason != tt.refused || v.ObservedReason != tt.would || v.Waiting != (tt.refused == admission.ReasonNone) {
				t.Fatalf("decided %+v, want refused %q, would %q", v.Decision, tt.refused, tt.would)
			}
		})
	}
}

// TestMemoryIsFiniteInEveryMode: the queue's bound holds whatever the policy
// says, and observe still tells what the policy would have said.
func TestMemoryIsFiniteInEveryMode(t *testing.T) {
	for _, m := range []admission.Mode{admission.Observe, admission.PassThrough} {
		g := overload(t, m)
		offerN(g, 30*time.Second, 2)
		v := offer(g, 30*time.Second, admission.Task{})
		v.wantReason(t, admission.ReasonMemory)
		if bad := refusalDefect(v.Refusal); bad != "" {
			t.Fatalf("%s: %s", m, bad)
		}
		if want := m == admission.Observe; (v.ObservedReason == admission.ReasonQueueAge) != want {
			t.Fatalf("%s: would have refused for %q", m, v.ObservedReason)
		}
		wantGauges(t, g, 30*time.Second, 1, 5, 30*time.Second)
	}
	g := newGate(t, admission.Config{QueueLimit: 1})
	offerN(g, 0, 2)
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
}

// TestModesAtTheDeadline: only enforce acts when a deadline passes; observe says
// so where there is somebody to say it to.
func TestModesAtTheDeadline(t *testing.T) {
	for _, m := range []admission.Mode{admission.Observe, admission.PassThrough} {
		t.Run(m.String(), func(t *testing.T) {
			would := admission.ReasonNone
			if m == admission.Observe {
				would = admission.ReasonDeadlinePassed
			}
			g := newGate(t, admission.Config{Mode: m})
			task, late := admission.Task{Deadline: at(time.Second)}, 2*time.Second
			running, waits := offer(g, 0, task), offer(g, 0, task)
			if r := g.Expire(at(late), waits.Ticket); r != (admission.Refusal{}) {
				t.Fatalf("expired: %+v", r)
			}
			g.Release(at(late), running.Ticket, admission.Served)
			waits.wantReason(t, admission.ReasonNone)
			if d := g.CheckDispatch(at(late), waits.Ticket); d.Reason != admission.ReasonNone || d.ObservedReason != would {
				t.Fatalf("started with %+v, want would %q", d, would)
			}
			v := offer(g, late, task)
			v.wantWaiting(t)
			if v.ObservedReason != would {
				t.Fatalf("came in with would %q, want %q", v.ObservedReason, would)
			}
		})
	}
}

// TestSetModeKeepsTasks: a change of mode or policy notifies no waiter
// anything; it counts from the next decision on.
func TestSetModeKeepsTasks(t *testing.T) {
	g := newGate(t, admission.Config{})
	task := admission.Task{Deadline: at(time.Second)}
	running, waits := offer(g, 0, task), offer(g, 0, task)
	before := admission.Enforce
	for _, m := range []admission.Mode{admission.PassThrough, admission.Observe, admission.Enforce, admission.Enforce} {
		if got := g.SetMode(at(time.Minute), m); got != before {
			t.Fatalf("mode before was %s, want %s", got, before)
		}
		before = m
		g.SetPolicy(at(time.Minute), admission.None{})
		g.SetPolicy(at(time.Minute), defaultThreshold)
		wantGauges(t, g, time.Minute, 1, 1, time.Minute)
		waits.wantWaiting(t)
		if s := g.Snapshot(at(time.Minute)); s.Mode != m || s.Policy != "threshold" {
			t.Fatalf("mode %s, policy %s; want %s, threshold", s.Mode, s.Policy, m)
		}
	}
	g.SetMode(at(time.Minute), admission.PassThrough)
	g.Release(at(time.Minute), running.Ticket, admission.Served)
	waits.wantReason(t, admission.ReasonNone)
}

func TestDrain(t *testing.T) {
	for _, m := range admission.Modes() {
		t.Run(m.String(), func(t *testing.T) {
			g := newGate(t, admission.Config{Mode: m})
			all := offerN(g, 0, 4)
			g.Drain(at(time.Second))
			g.Drain(at(time.Second))
			for _, v := range all[1:] {
				v.wantReason(t, admission.ReasonDraining)
				if bad := refusalDefect(v.received[0]); bad != "" {
					t.Fatal(bad)
				}
			}
			v := offer(g, time.Second, admission.Task{})
			v.wantReason(t, admission.ReasonDraining)
			if bad := refusalDefect(v.Refusal); bad != "" {
				t.Fatal(bad)
			}
			if d := g.CheckDispatch(at(time.Second), all[0].Ticket); d.Reason != admission.ReasonNone {
				t.Fatalf("a running task may not go upstream: %+v", d)
			}
			if !g.Release(at(time.Second), all[0].Ticket, admission.Served) {
				t.Fatal("a running task lost its permit")
			}
			offer(g, time.Second, admission.Task{}).wantReason(t, admission.ReasonDraining)
			wantGauges(t, g, time.Second, 0, 0, 0)
			if !g.Snapshot(at(time.Second)).Draining {
				t.Fatal("does not say that it drains")
			}
		})
	}
}

func TestRetryAfterChangesNothing(t *testing.T) {
	g := overload(t, admission.Enforce)
	before := g.Snapshot(at(30 * time.Second))
	g.RetryAfter(at(30*time.Second), 7)
	if after := g.Snapshot(at(30 * time.Second)); after != before {
		t.Fatalf("state went from %+v to %+v", before, after)
	}
}

func TestReconfigure(t *testing.T) {
	g := newGate(t, admission.Config{Mode: admission.PassThrough, QueueLimit: 2})
	all := offerN(g, 0, 3)
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
	c := admission.Config{Workers: 2, Policy: admission.None{}, Mode: admission.Observe, QueueLimit: 3, AssumedService: time.Second}
	if err := g.Reconfigure(at(0), c); err != nil {
		t.Fatal(err)
	}
	all[1].wantReason(t, admission.ReasonNone)
	all[2].wantWaiting(t)
	s := g.Snapshot(at(0))
	if s.Mode != admission.PassThrough || s.Policy != "none" || s.Workers != 2 || s.Service.Mean != time.Second {
		t.Fatalf("after the change: %+v", s)
	}
	for range 2 {
		offer(g, 0, admission.Task{}).wantWaiting(t)
	}
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
}

func TestReconfigureChangesAllOrNothing(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 3})
	before := g.Snapshot(at(0))
	good := admission.Config{Workers: 9, Policy: admission.None{}, QueueLimit: 9, AssumedService: time.Second}
	for field, spoil := range map[string]func(*admission.Config){
		"workers":           func(c *admission.Config) { c.Workers = 0 },
		"policy":            func(c *admission.Config) { c.Policy = nil },
		"passthrough_queue": func(c *admission.Config) { c.QueueLimit = 0 },
		"assumed_service":   func(c *admission.Config) { c.AssumedService = 0 },
	} {
		c := good
		spoil(&c)
		wantField(t, g.Reconfigure(at(0), c), field)
		if got := g.Snapshot(at(0)); got != before {
			t.Fatalf("bad %s changed the gate: %+v", field, got)
		}
	}
}

// wantPaused checks until when a gate is paused, as time on the
// virtual clock; 0: it is not.
func wantPaused(t *testing.T, g *admission.Gate, now, until time.Duration) {
	t.Helper()
	want := at(until)
	if until == 0 {
		want = time.Time{}
	}
	if got := g.Snapshot(at(now)).PausedUntil; !got.Equal(want) {
		t.Fatalf("paused until %s, want %s", got, want)
	}
}

// TestPauseGrantsNoPermit: running tasks end, new ones wait though permits are
// free, and Resume grants to them, oldest first.
func TestPauseGrantsNoPermit(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 2})
	running := offer(g, 0, admission.Task{})
	g.Pause(at(0), at(time.Hour))
	all := offerN(g, time.Second, 3)
	if d := g.CheckDispatch(at(time.Second), running.Ticket); d.Reason != admission.ReasonNone {
		t.Fatalf("a task with a permit may not go upstream: %+v", d)
	}
	if !g.Release(at(2*time.Second), running.Ticket, admission.Served) {
		t.Fatal("a running task lost its permit")
	}
	wantPaused(t, g, 2*time.Second, time.Hour)
	wantGauges(t, g, 2*time.Second, 0, 3, time.Second)
	g.Resume(at(3 * time.Second))
	wantPaused(t, g, 3*time.Second, 0)
	all[0].wantReason(t, admission.ReasonNone)
	all[1].wantReason(t, admission.ReasonNone)
	all[2].wantWaiting(t)
	wantGauges(t, g, 3*time.Second, 2, 1, 2*time.Second)
}

// TestPausedPoolRefusesByTheRules: all permits count as out, so that depth and
// age refuse, and Retry-After knows how long the pause is going to last.
func TestPausedPoolRefusesByTheRules(t *testing.T) {
	g := newGate(t, admission.Config{AssumedService: time.Second})
	g.Pause(at(0), at(40*time.Second))
	offerN(g, 0, 3)
	v := offer(g, 0, admission.Task{})
	v.wantReason(t, admission.ReasonQueueDepth)
	if v.RetryAfter < 40*time.Second {
		t.Fatalf("come back after %s, but the pause lasts for 40s", v.RetryAfter)
	}
	offer(g, 26*time.Second, admission.Task{}).wantReason(t, admission.ReasonQueueAge)

	g = newGate(t, admission.Config{Mode: admission.PassThrough, QueueLimit: 4})
	g.Pause(at(0), at(time.Hour))
	offerN(g, 0, 4)
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
}

// TestPauseEndsByItself: the first call at its end grants to the tasks that
// waited, whatever call it is, and before it is dealt with itself.
func TestPauseEndsByItself(t *testing.T) {
	for name, call := range map[string]func(*admission.Gate, time.Time, *admission.Ticket){
		"Offer": func(g *admission.Gate, now time.Time, _ *admission.Ticket) {
			g.Offer(now, admission.Task{Waiter: new(waiterLog)})
		},
		"CheckDispatch": func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.CheckDispatch(now, run) },
		"Release":       func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.Release(now, run, admission.Served) },
		"Leave":         func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.Cancel(now, run) },
		"Expire":        func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.Expire(now, run) },
		"RetryAfter":    func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.RetryAfter(now, 1) },
		"Overdue":       func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.Overdue(now) },
		"DropOverdue":   func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.DropOverdue(now) },
		"SetMode":       func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.SetMode(now, admission.Observe) },
		"Drain":         func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.Drain(now) },
		"Snapshot":      func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.Snapshot(now) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, admission.Config{Workers: 2})
			running := offer(g, 0, admission.Task{})
			g.Pause(at(0), at(10*time.Second))
			waits := offer(g, time.Second, admission.Task{})
			wantPaused(t, g, 10*time.Second-1, 10*time.Second)
			waits.wantWaiting(t)
			call(g, at(10*time.Second), running.Ticket)
			waits.wantReason(t, admission.ReasonNone)
			if got := waits.Ticket.Queued(); got != 9*time.Second {
				t.Fatalf("queued for %s, want 9s", got)
			}
			wantPaused(t, g, 10*time.Second, 0)
		})
	}
}

// TestPauseReplacesPause replaces the end; an end that is not ahead is none.
func TestPauseReplacesPause(t *testing.T) {
	g := newGate(t, admission.Config{})
	g.Resume(at(0))
	g.Pause(at(0), at(time.Minute))
	g.Pause(at(0), at(time.Hour))
	waits := offer(g, 2*time.Minute, admission.Task{})
	waits.wantWaiting(t)
	wantPaused(t, g, 2*time.Minute, time.Hour)
	g.Pause(at(3*time.Minute), at(time.Minute))
	wantPaused(t, g, 3*time.Minute, 0)
	waits.wantReason(t, admission.ReasonNone)
}

// TestOverdueCountsThePause: what cannot end in time because of a pause is
// overdue.
func TestOverdueCountsThePause(t *testing.T) {
	g := newGate(t, admission.Config{Mode: admission.PassThrough, AssumedService: time.Second})
	g.Pause(at(0), at(time.Minute))
	hopeless := offer(g, 0, admission.Task{Deadline: at(30 * time.Second)})
	offer(g, 0, admission.Task{Deadline: at(2 * time.Minute)}).wantWaiting(t)
	if n, drain := g.Overdue(at(0)); n != 1 || drain != 62*time.Second {
		t.Fatalf("%d overdue, all granted in %s; want 1 and 1m2s", n, drain)
	}
	if n := g.DropOverdue(at(0)); n != 1 {
		t.Fatalf("%d dropped, want 1", n)
	}
	hopeless.wantReason(t, admission.ReasonDeadlineUnmeetable)
}

// panickingPolicy is a policy that panics where it is configured to.
type panickingPolicy struct {
	admission.Threshold
	admit, dispatch *bool
}

func (p panickingPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	if *p.admit {
		panic("no idea about " + t.Class.String())
	}
	return defaultThreshold.Admit(v, t)
}

func (p panickingPolicy) Dispatch(v admission.View, t admission.Task) admission.Reason {
	if *p.dispatch {
		panic("policy failed")
	}
	return defaultThreshold.Dispatch(v, t)
}

// TestPanicInAdmitAdmits: a task that the policy fails to decide about is admitted as
// in mode passthrough, within the bound on memory.
func TestPanicInAdmitAdmits(t *testing.T) {
	for _, m := range []admission.Mode{admission.Enforce, admission.Observe} {
		yes, no := true, false
		g := newGate(t, admission.Config{Policy: panickingPolicy{defaultThreshold, &yes, &no}, Mode: m, QueueLimit: 4})
		all := offerN(g, 0, 5)
		all[0].wantReason(t, admission.ReasonNone)
		for _, v := range all[1:] {
			v.wantWaiting(t)
		}
		offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
		wantGauges(t, g, 0, 1, 4, 0)
		p := g.TakePanics()
		if p.Count != 6 || p.Value != "no idea about interactive" || !strings.Contains(string(p.Stack), "panickingPolicy.Admit") {
			t.Fatalf("caught %d, first %v\n%s", p.Count, p.Value, p.Stack)
		}
		if p := g.TakePanics(); p.Count != 0 || p.Value != nil || p.Stack != nil {
			t.Fatalf("reported twice: %+v", p)
		}
	}
}

// TestPanicInDispatchDispatches: the task goes upstream as in mode passthrough,
// and the permit comes back once.
func TestPanicInDispatchDispatches(t *testing.T) {
	yes, no := true, false
	g := newGate(t, admission.Config{Policy: panickingPolicy{defaultThreshold, &no, &yes}})
	task := admission.Task{Deadline: at(time.Second)}
	running, waits := offer(g, 0, task), offer(g, 0, task)
	if d := g.CheckDispatch(at(time.Minute), running.Ticket); d.Ticket != running.Ticket || d.Reason != admission.ReasonNone {
		t.Fatalf("started with %+v", d)
	}
	if r := g.Expire(at(time.Minute), waits.Ticket); r != (admission.Refusal{}) {
		t.Fatalf("expired: %+v", r)
	}
	if !g.Release(at(time.Minute), running.Ticket, admission.Served) || g.Release(at(time.Minute), running.Ticket, admission.Served) {
		t.Fatal("the permit did not come back just once")
	}
	waits.wantReason(t, admission.ReasonNone)
	wantGauges(t, g, time.Minute, 1, 0, 0)
	if p := g.TakePanics(); p.Count != 3 || p.Value != "policy failed" {
		t.Fatalf("caught %d, first %v", p.Count, p.Value)
	}
}

// TestPassThroughSkipsPolicy: the way out of a policy that panics.
func TestPassThroughSkipsPolicy(t *testing.T) {
	yes := true
	g := newGate(t, admission.Config{Policy: panickingPolicy{defaultThreshold, &yes, &yes}, Mode: admission.PassThrough})
	running := offer(g, 0, admission.Task{})
	g.CheckDispatch(at(0), running.Ticket)
	g.Release(at(0), running.Ticket, admission.Served)
	if p := g.TakePanics(); p.Count != 0 {
		t.Fatalf("caught %+v", p)
	}
}

// TestLockIsFreeAfterAPanic of something that is not the policy.
func TestLockIsFreeAfterAPanic(t *testing.T) {
	d := &panickingMonitor{}
	g := newGate(t, admission.Config{Monitor: d})
	d.panics = true
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		offer(g, 0, admission.Task{})
	}()
	d.panics = false
	g.Snapshot(at(0)) // would wait for ever
}

// panickingMonitor is a watcher that panics.
type panickingMonitor struct {
	recordingMonitor
	panics bool
}

func (f *panickingMonitor) OnStep(time.Time, *admission.Ticket, admission.Step) {
	if f.panics {
		panic("monitor failed")
	}
}

// backlog returns a gate that went to pass-through with one task running and
// four waiting, of which, at 30 s and 10 s a task, the second and the last are
// lost: one is late already, one would end too late.
func backlog(t *testing.T) (*admission.Gate, []*submission) {
	t.Helper()
	g := newGate(t, admission.Config{Mode: admission.PassThrough})
	var all []*submission
	for _, deadline := range []time.Duration{0, 50 * time.Second, 20 * time.Second, 60 * time.Second, 69 * time.Second} {
		task := admission.Task{Deadline: at(deadline)}
		if deadline == 0 {
			task.Deadline = time.Time{}
		}
		all = append(all, offer(g, 0, task))
	}
	return g, all
}

func TestWaitingTasksAreGrandfathered(t *testing.T) {
	g, all := backlog(t)
	g.SetMode(at(30*time.Second), admission.Enforce)
	for i, v := range all[1:] {
		if r := g.Expire(at(100*time.Second), v.Ticket); r.Reason != admission.ReasonNone {
			t.Fatalf("waiting task %d expired as %q, want it kept", i, r.Reason)
		}
	}
	for i := range all {
		g.Release(at(100*time.Second), all[i].Ticket, admission.Served)
		if i+1 < len(all) {
			all[i+1].wantReason(t, admission.ReasonNone)
			if d := g.CheckDispatch(at(100*time.Second), all[i+1].Ticket); d.Reason != admission.ReasonNone {
				t.Fatalf("granted task %d was refused at its start: %q", i+1, d.Reason)
			}
		}
	}
	late := offer(g, 100*time.Second, admission.Task{Deadline: at(99 * time.Second)})
	late.wantReason(t, admission.ReasonDeadlinePassed)
}

func TestSetSameModeGrandfathersNothing(t *testing.T) {
	g := newGate(t, admission.Config{})
	offer(g, 0, admission.Task{})
	v := offer(g, 0, admission.Task{Deadline: at(time.Second)})
	g.SetMode(at(0), admission.Enforce)
	if r := g.Expire(at(time.Second), v.Ticket); r.Reason != admission.ReasonDeadlinePassed {
		t.Fatalf("expired as %q, want deadline_passed", r.Reason)
	}
}

func TestDropOverdue(t *testing.T) {
	g, all := backlog(t)
	now := 30 * time.Second
	n, drain := g.Overdue(at(now))
	if n != 2 || drain != 40*time.Second {
		t.Fatalf("overdue %d, drain %s; want 2 and 40s", n, drain)
	}
	g.SetMode(at(now), admission.Enforce)
	if n := g.DropOverdue(at(now)); n != 2 {
		t.Fatalf("dropped %d, want 2", n)
	}
	all[1].wantWaiting(t)
	all[2].wantReason(t, admission.ReasonDeadlinePassed)
	all[3].wantWaiting(t)
	all[4].wantReason(t, admission.ReasonDeadlineUnmeetable)
	for _, i := range []int{2, 4} {
		if retry := all[i].received[0].RetryAfter; retry < time.Second || retry > time.Minute {
			t.Fatalf("task %d may come back in %s", i, retry)
		}
	}
	wantGauges(t, g, now, 1, 2, now)
	if n := g.DropOverdue(at(now)); n != 0 {
		t.Fatalf("dropped %d more", n)
	}
}

// reentrantWaiter is a waiter that calls back into the gate while it is notified.
type reentrantWaiter struct {
	g     *admission.Gate
	d     admission.Decision
	calls int
}

func (n *reentrantWaiter) Done(r admission.Refusal) {
	n.calls++
	n.g.Snapshot(at(0))
	n.g.RetryAfter(at(0), 0)
	n.g.SetMode(at(0), admission.Enforce)
	n.g.SetPolicy(at(0), defaultThreshold)
	if n.g.Cancel(at(0), n.d.Ticket) || n.g.Expire(at(0), n.d.Ticket) != (admission.Refusal{}) {
		panic("still waits after Done")
	}
	if r.Reason == admission.ReasonNone {
		n.g.CheckDispatch(at(0), n.d.Ticket)
		n.g.Release(at(0), n.d.Ticket, admission.Served)
	}
}

// TestWaiterMayCallTheGate: waiters are called outside the lock, so one that
// calls back does not block the gate, and each is called once, however the
// wait ended.
func TestWaiterMayCallTheGate(t *testing.T) {
	ways := map[string]func(*admission.Gate, *admission.Ticket){
		"release": func(g *admission.Gate, running *admission.Ticket) { g.Release(at(0), running, admission.Served) },
		"start":   func(g *admission.Gate, running *admission.Ticket) { g.CheckDispatch(at(time.Hour), running) },
		"resize":  func(g *admission.Gate, _ *admission.Ticket) { _ = g.Resize(at(0), 50) },
		"drain":   func(g *admission.Gate, _ *admission.Ticket) { g.Drain(at(0)) },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			running := offer(g, 0, admission.Task{Deadline: at(time.Hour)})
			var waiters []*reentrantWaiter
			for range 3 {
				n := &reentrantWaiter{g: g}
				n.d = g.Offer(at(0), admission.Task{Waiter: n})
				waiters = append(waiters, n)
			}
			end(g, running.Ticket)
			for i, n := range waiters {
				if n.calls != 1 {
					t.Errorf("waiter %d was called %d times", i, n.calls)
				}
			}
			g.Release(at(0), running.Ticket, admission.Served)
			if s := g.Snapshot(at(0)); s.InFlight != 0 || s.Depth != 0 {
				t.Errorf("%d in flight, %d deep; want nothing left", s.InFlight, s.Depth)
			}
		})
	}
}

// TestTaskWithoutWaiter: a task without a Waiter is not notified.
func TestTaskWithoutWaiter(t *testing.T) {
	g := newGate(t, admission.Config{})
	running := g.Offer(at(0), admission.Task{})
	waits := g.Offer(at(0), admission.Task{})
	g.Release(at(0), running.Ticket, admission.Served)
	if !g.Release(at(0), waits.Ticket, admission.Served) {
		t.Fatal("the queued task got no permit")
	}
}

// TestQueuedBeforeTheGrant: the wait is 0 until it has ended in a permit.
func TestQueuedBeforeTheGrant(t *testing.T) {
	g := newGate(t, admission.Config{})
	running, v := offer(g, 0, admission.Task{}), offer(g, 0, admission.Task{})
	if running.Ticket.Queued() != 0 || v.Ticket.Queued() != 0 {
		t.Fatalf("queued for %s and %s, want 0", running.Ticket.Queued(), v.Ticket.Queued())
	}
	g.Cancel(at(time.Second), v.Ticket)
	if got := v.Ticket.Queued(); got != 0 {
		t.Fatalf("queued for %s though it never got a permit", got)
	}
}
