package alerts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headgate/alerts"
	"headgate/alerts/outboxtest"
	"headgate/engine"
)

// crasher ends a process at its n-th step: from there on the outbox does
// nothing for it, and its notifier sends nothing.
type crasher struct {
	mu    sync.Mutex
	at    int
	steps int
	dead  bool
}

var errCrashed = errors.New("the process has ended")

// step counts a step, and says whether the process is dead.
func (g *crasher) step() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.steps++
	if g.steps == g.at {
		g.dead = true
	}
	return g.dead
}

// crashingNotifier is a notifier of a process that may die before or after it has sent.
type crashingNotifier struct {
	*fakeNotifier
	crasher *crasher
}

func (m crashingNotifier) Send(ctx context.Context, d alerts.Delivery, root alerts.Ref, plain bool) alerts.SendResult {
	if m.crasher.step() {
		return alerts.SendResult{Outcome: alerts.RetryLater}
	}
	a := m.fakeNotifier.Send(ctx, d, root, plain)
	m.crasher.step()
	return a
}

func (m crashingNotifier) Lookup(ctx context.Context, d alerts.Delivery, root alerts.Ref) (alerts.Ref, bool, error) {
	if m.crasher.step() {
		return alerts.Ref{}, false, errCrashed
	}
	return m.fakeNotifier.Lookup(ctx, d, root)
}

// runUntilCrash runs a dispatcher until it has nothing to do or is killed at a step.
func runUntilCrash(t *testing.T, box *outboxtest.Memory, s *fakeNotifier, killAt int, during func(*outboxtest.Memory)) (steps int) {
	t.Helper()
	g := &crasher{at: killAt}
	box.SetHook(func(string) error {
		if g.step() {
			return errCrashed
		}
		return nil
	})
	r := newFixture(t, box)
	r.opts.Notifiers = map[alerts.Destination]alerts.Notifier{alerts.ToPage: crashingNotifier{s, g}, alerts.ToFallback: r.fallback}
	r.start()
	during(box)
	advance(3 * time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.dispatcher.Stop(ctx) // a dead process records nothing
	box.SetHook(nil)
	return g.steps
}

// putIncidents has three incidents: one that ends, one that escalates, one that opens and
// ends at once. What happens is recorded whether or not the process lives.
func putIncidents(box *outboxtest.Memory) {
	box.Put(delivery("a", 1, alerts.Post, ping), delivery("b", 1, alerts.Post))
	advance(3 * time.Second)
	box.Put(delivery("b", 2, alerts.Edit), delivery("b", 2, alerts.Reply, ping))
	box.Put(delivery("c", 1, alerts.Post, ping))
	box.Put(delivery("c", 2, alerts.Edit, resolved), delivery("c", 2, alerts.Reply, resolved))
	advance(3 * time.Second)
	box.Put(delivery("a", 2, alerts.Edit, resolved), delivery("a", 2, alerts.Reply, resolved, ping))
}

func putNothing(*outboxtest.Memory) {}

// checkMessages checks the messages that people see: each incident once, up to its resolution, with at
// most the given number of repeats.
func checkMessages(t *testing.T, box *outboxtest.Memory, s *fakeNotifier, repeats int) {
	t.Helper()
	for _, d := range box.All() {
		if d.State.Pending() || d.State == alerts.Dead {
			t.Errorf("%s %s%d is %s: %s", d.Incident, d.Kind, d.Seq, d.State, d.Reason)
		}
	}
	roots, extra := make(map[string]int), 0
	for what, n := range s.visible {
		f := strings.Fields(what)
		if f[1] == "root" {
			roots[f[0]] += n
		}
		extra += n - 1
	}
	for _, inc := range []string{"a", "b", "c"} {
		if roots[inc] == 0 {
			t.Errorf("%s was never notified", inc)
		}
	}
	if extra > repeats {
		t.Errorf("%d repeats, at most %d are allowed: %v", extra, repeats, s.visible)
	}
	for i, c := range s.calls() {
		over := !c.delivery.Notification.Incident.Open()
		if !c.lookup && over && c.delivery.StartsThread(c.root) && !c.delivery.Notification.Combined {
			t.Errorf("attempt %d: an end without its beginning", i)
		}
	}
	last := make(map[string]bool) // what the message says at last
	for _, c := range s.calls() {
		if !c.lookup && c.delivery.Kind != alerts.Reply || c.delivery.StartsThread(c.root) {
			last[c.delivery.Incident] = c.delivery.Notification.Incident.Open()
		}
	}
	if last["a"] || last["c"] || !last["b"] {
		t.Errorf("at last the messages say that these are open: %v, want b only", last)
	}
}

func TestCrashAtEveryStep(t *testing.T) {
	total := 0
	synctest.Test(t, func(t *testing.T) {
		box, s := outboxtest.NewMemory(), newFakeNotifier()
		total = runUntilCrash(t, box, s, -1, putIncidents)
		checkMessages(t, box, s, 0)
	})
	if total < 40 {
		t.Fatalf("only %d steps", total)
	}
	// Most of the steps are looks at an empty outbox.
	for kill := 1; kill <= min(total, 120); kill++ {
		t.Run(fmt.Sprint(kill), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, s := outboxtest.NewMemory(), newFakeNotifier()
				runUntilCrash(t, box, s, kill, putIncidents)
				runUntilCrash(t, box, s, -1, putNothing)
				checkMessages(t, box, s, 0)
			})
		})
	}
}

// TestRepeatedCrashesWithFailures kills while every third call fails, in any of
// the ways in which calls fail.
func TestRepeatedCrashesWithFailures(t *testing.T) {
	for seed := range 30 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, s := outboxtest.NewMemory(), newFakeNotifier()
				s.answer = func(n int, c call) *alerts.SendResult {
					if (n+seed)%3 != 0 {
						return nil
					}
					switch (n / 3) % 3 {
					case 0:
						return outcome(alerts.RetryLater)
					case 1:
						return outcome(alerts.Ambiguous)
					default:
						s.acceptLocked(c.delivery, c.root)
						return outcome(alerts.Ambiguous)
					}
				}
				kills := 4
				tale := putIncidents
				for k := range kills {
					runUntilCrash(t, box, s, 5+(seed*7+k*13)%40, tale)
					tale = putNothing
				}
				runUntilCrash(t, box, s, -1, putNothing)
				checkMessages(t, box, s, 0)
			})
		})
	}
}

func TestUnrecordedPages(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.box.SetDown(true)
		r.start()
		advance(time.Second)
		taken := r.dispatcher.SubmitUnrecorded([]alerts.Delivery{
			delivery("i", 1, alerts.Post, ping), delivery("w", 1, alerts.Post), delivery("s", 1, alerts.Post, ping, inState(alerts.Dropped)),
		})
		advance(time.Second)
		if taken != 1 {
			t.Errorf("took %d, want only the page", taken)
		}
		wantString(t, "attempts", r.page.String(), "post1+!")
		if !r.page.calls()[0].delivery.Notification.Unrecorded {
			t.Error("not marked as unrecorded")
		}
		r.dispatcher.SubmitUnrecorded([]alerts.Delivery{delivery("i", 2, alerts.Edit), delivery("i", 2, alerts.Reply, ping)})
		advance(2 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+! reply2!")

		r.box.SetDown(false)
		// The engine records in the end what it could not, under other IDs.
		r.put(delivery("i", 1, alerts.Post, ping), delivery("i", 2, alerts.Edit), delivery("i", 2, alerts.Reply, ping), delivery("w", 1, alerts.Post))
		advance(5 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+! reply2! post1+ edit2")
		if s := r.states(); strings.Count(s, ":sent") != 4 || len(r.box.All()) != 4 {
			t.Errorf("states: %s", s)
		}
		ref, _ := r.box.Thread(context.Background(), "i", alerts.ToPage)
		if ref == (alerts.Ref{}) {
			t.Error("where the message stands was not recorded")
		}
	})
}

// A message about missing signals is sent unrecorded although it does not ping; its edits
// wait for the record.
func TestUnrecordedMissingSignal(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.box.SetDown(true)
		r.start()
		blind := func(d *alerts.Delivery) { d.Notification.Incident.Key.Rule = engine.SignalMissing }
		if taken := r.dispatcher.SubmitUnrecorded([]alerts.Delivery{delivery("i", 1, alerts.Post, blind)}); taken != 1 {
			t.Errorf("took %d, want 1", taken)
		}
		advance(time.Second)
		if taken := r.dispatcher.SubmitUnrecorded([]alerts.Delivery{delivery("i", 2, alerts.Edit, blind), delivery("i", 2, alerts.Reply, blind)}); taken != 1 {
			t.Errorf("took %d of an edit and a reply, want the reply", taken)
		}
		advance(2 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+ reply2")
		if !r.page.calls()[0].delivery.Notification.Unrecorded {
			t.Error("not marked as unrecorded")
		}
		r.box.SetDown(false)
		advance(5 * time.Second)
		wantString(t, "states", r.states(), "post1@page:sent reply2@page:sent")
	})
}

// A notice that cannot be recorded is sent at once, and recorded as sent later.
func TestUnrecordedNotice(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.box.SetDown(true)
		r.start()
		notice := alerts.Routes{Page: "C1"}.NewNotice("d-1", "c-1", "main", "so it is", time.Now(), false)
		if taken := r.dispatcher.SubmitUnrecorded([]alerts.Delivery{notice}); taken != 1 {
			t.Errorf("took %d, want 1", taken)
		}
		advance(time.Second)
		wantString(t, "attempts", r.page.String(), "post1+")
		r.box.SetDown(false)
		advance(5 * time.Second)
		wantString(t, "states", r.states(), "post1@page:sent")
	})
}

func TestUnrecordedIsRecordedOnce(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.box.SetDown(true)
		r.start()
		r.dispatcher.SubmitUnrecorded([]alerts.Delivery{delivery("i", 1, alerts.Post, ping)})
		advance(time.Second)
		r.box.SetDown(false)
		advance(10 * time.Second)
		wantString(t, "states", r.states(), "post1@page:sent")
		r.put(delivery("i", 1, alerts.Post, ping))
		advance(5 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+!")
	})
}

func TestUnrecordedBufferLimit(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		const limit, tooMany = 256, 7 // limit is that of the buffer
		r.box.SetDown(true)
		r.page.answer = func(int, call) *alerts.SendResult { return outcome(alerts.RetryLater) }
		r.start()
		for i := range limit + tooMany {
			r.dispatcher.SubmitUnrecorded([]alerts.Delivery{delivery(fmt.Sprint(i), 1, alerts.Post, ping)})
			synctest.Wait()
		}
		if n := r.metric(alerts.ToPage, "lost"); n != tooMany {
			t.Errorf("%d counted as lost, want %d", n, tooMany)
		}
		var incs []string
		advance(10 * time.Second)
		for _, c := range r.page.calls() {
			incs = append(incs, c.delivery.Incident)
		}
		slices.Sort(incs)
		if got := slices.Compact(incs); len(got) == 0 || slices.Contains(got, fmt.Sprint(limit)) {
			t.Errorf("sent %v, want some of those that fit", got)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.dispatcher.Stop(ctx); err == nil || !strings.Contains(err.Error(), fmt.Sprint(limit)) {
			t.Errorf("Stop: %v, want that %d could not be recorded", err, limit)
		}
		r.dispatcher = nil
	})
}

func TestUrgentWithoutRecordedClaim(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.put(delivery("p", 1, alerts.Post, ping), delivery("w", 1, alerts.Post))
		r.box.SetHook(func(op string) error {
			if op == "save" {
				return errors.New("the disk is full")
			}
			return nil
		})
		r.start()
		advance(20 * time.Second)
		if calls := r.page.calls(); len(calls) != 1 || calls[0].delivery.Incident != "p" {
			t.Fatalf("attempts %s, want the page and only once", r.page)
		}
		r.box.SetHook(nil)
		advance(10 * time.Second)
		wantString(t, "states", r.states(), "post1@page:sent post1@page:sent")
		if n := len(r.page.calls()); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
	})
}
