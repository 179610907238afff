package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

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

// overload returns a gate in a mode that the article's rule would close: one
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
			t.Fatalf("%s: would have said %q", m, v.ObservedReason)
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
			if d := g.Start(at(late), waits.Ticket); d.Reason != admission.ReasonNone || d.ObservedReason != would {
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

// TestSetModeKeepsTasks: a change of mode or policy tells nobody
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
			if d := g.Start(at(time.Second), all[0].Ticket); d.Reason != admission.ReasonNone {
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

func TestRefuseChangesNothing(t *testing.T) {
	g := overload(t, admission.Enforce)
	before := g.Snapshot(at(30 * time.Second))
	for _, reason := range admission.Reasons() {
		r := g.Refuse(at(30*time.Second), reason, 7)
		if bad := refusalDefect(r); r.Reason != reason || bad != "" {
			t.Fatalf("refused with %+v, want %s: %s", r, reason, bad)
		}
	}
	if after := g.Snapshot(at(30 * time.Second)); after != before {
		t.Fatalf("state went from %+v to %+v", before, after)
	}
}
