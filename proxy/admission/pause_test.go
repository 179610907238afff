package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

// wantPaused checks until when a gate says that it is paused, as time on the
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

// TestPauseGrantsNoPermit: who runs ends, who comes waits though permits are
// free, and Resume lets them in, oldest first.
func TestPauseGrantsNoPermit(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 2})
	running := offer(g, 0, admission.Task{})
	g.Pause(at(0), at(time.Hour))
	all := offerN(g, time.Second, 3)
	if d := g.Start(at(time.Second), running.Ticket); d.Reason != admission.ReasonNone {
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

// TestPauseEndsByItself: the first call at the end of it lets those in who
// waited, whatever call it is, and before it is dealt with itself.
func TestPauseEndsByItself(t *testing.T) {
	for name, call := range map[string]func(*admission.Gate, time.Time, *admission.Ticket){
		"Offer": func(g *admission.Gate, now time.Time, _ *admission.Ticket) {
			g.Offer(now, admission.Task{Waiter: new(waiterLog)})
		},
		"Start":       func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.Start(now, run) },
		"Release":     func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.Release(now, run, admission.Served) },
		"Leave":       func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.Cancel(now, run) },
		"Expire":      func(g *admission.Gate, now time.Time, run *admission.Ticket) { g.Expire(now, run) },
		"Refuse":      func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.Refuse(now, admission.ReasonMemory, 1) },
		"Overdue":     func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.Overdue(now) },
		"DropOverdue": func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.DropOverdue(now) },
		"SetMode":     func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.SetMode(now, admission.Observe) },
		"Drain":       func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.Drain(now) },
		"Snapshot":    func(g *admission.Gate, now time.Time, _ *admission.Ticket) { g.Snapshot(now) },
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
