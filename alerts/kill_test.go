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

// guillotine ends a process at its n-th step: from there on the outbox does
// nothing for it, and its sender sends nothing.
type guillotine struct {
	mu   sync.Mutex
	at   int
	step int
	dead bool
}

var errDead = errors.New("the process has ended")

// falls counts a step, and says whether the process is dead.
func (g *guillotine) falls() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.step++
	if g.step == g.at {
		g.dead = true
	}
	return g.dead
}

// mortal is a sender of a process that may die before or after it has sent.
type mortal struct {
	*scripted
	g *guillotine
}

func (m mortal) Send(ctx context.Context, d alerts.Delivery, root alerts.Ref, plain bool) alerts.Attempt {
	if m.g.falls() {
		return alerts.Attempt{Outcome: alerts.Again}
	}
	a := m.scripted.Send(ctx, d, root, plain)
	m.g.falls()
	return a
}

func (m mortal) Find(ctx context.Context, d alerts.Delivery, root alerts.Ref) (alerts.Ref, bool, error) {
	if m.g.falls() {
		return alerts.Ref{}, false, errDead
	}
	return m.scripted.Find(ctx, d, root)
}

// life runs a deliverer until it has nothing to do or is killed at a step.
func life(t *testing.T, box *outboxtest.Memory, s *scripted, killAt int, during func(*outboxtest.Memory)) (steps int) {
	t.Helper()
	g := &guillotine{at: killAt}
	box.SetHook(func(string) error {
		if g.falls() {
			return errDead
		}
		return nil
	})
	r := newRig(t, box)
	r.o.Senders = map[alerts.Destination]alerts.Sender{alerts.ToPage: mortal{s, g}, alerts.ToFallback: r.spare}
	r.start()
	during(box)
	pass(3 * time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.d.Stop(ctx) // a dead process records nothing
	box.SetHook(nil)
	return g.step
}

// story has three incidents: one that ends, one that escalates, one that opens and
// ends at once. What happens is recorded whether or not the sender lives.
func story(box *outboxtest.Memory) {
	box.Put(delivery("a", 1, alerts.Post, ping), delivery("b", 1, alerts.Post))
	pass(3 * time.Second)
	box.Put(delivery("b", 2, alerts.Edit), delivery("b", 2, alerts.Reply, ping))
	box.Put(delivery("c", 1, alerts.Post, ping))
	box.Put(delivery("c", 2, alerts.Edit, over), delivery("c", 2, alerts.Reply, over))
	pass(3 * time.Second)
	box.Put(delivery("a", 2, alerts.Edit, over), delivery("a", 2, alerts.Reply, over, ping))
}

func nothing(*outboxtest.Memory) {}

// audit checks what people see: each incident once, told to its end, with at most
// so many repeats.
func audit(t *testing.T, box *outboxtest.Memory, s *scripted, repeats int) {
	t.Helper()
	for _, d := range box.All() {
		if d.State.Pending() || d.State == alerts.Dead {
			t.Errorf("%s %s%d is %s: %s", d.Incident, d.Kind, d.Seq, d.State, d.Reason)
		}
	}
	roots, extra := make(map[string]int), 0
	for what, n := range s.texts {
		f := strings.Fields(what)
		if f[1] == "root" {
			roots[f[0]] += n
		}
		extra += n - 1
	}
	for _, inc := range []string{"a", "b", "c"} {
		if roots[inc] == 0 {
			t.Errorf("%s was never told", inc)
		}
	}
	if extra > repeats {
		t.Errorf("%d repeats, at most %d are allowed: %v", extra, repeats, s.texts)
	}
	for i, c := range s.calls() {
		over := !c.d.Note.Incident.Open()
		if !c.find && over && c.d.Opens(c.root) && !c.d.Note.Combined {
			t.Errorf("attempt %d: an end without its beginning", i)
		}
	}
	last := make(map[string]bool) // what the message says at last
	for _, c := range s.calls() {
		if !c.find && c.d.Kind != alerts.Reply || c.d.Opens(c.root) {
			last[c.d.Incident] = c.d.Note.Incident.Open()
		}
	}
	if last["a"] || last["c"] || !last["b"] {
		t.Errorf("at last the messages say that these are open: %v, want b only", last)
	}
}

func TestKilledAtEveryStep(t *testing.T) {
	total := 0
	synctest.Test(t, func(t *testing.T) {
		box, s := outboxtest.NewMemory(), newScripted()
		total = life(t, box, s, -1, story)
		audit(t, box, s, 0)
	})
	if total < 40 {
		t.Fatalf("only %d steps", total)
	}
	// Most of the steps are looks at an empty outbox.
	for kill := 1; kill <= min(total, 120); kill++ {
		t.Run(fmt.Sprint(kill), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, s := outboxtest.NewMemory(), newScripted()
				life(t, box, s, kill, story)
				life(t, box, s, -1, nothing)
				audit(t, box, s, 0)
			})
		})
	}
}

// TestKilledAgainAndAgainOnABadDay kills while every third call fails, in any of
// the ways in which calls fail.
func TestKilledAgainAndAgainOnABadDay(t *testing.T) {
	for seed := range 30 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, s := outboxtest.NewMemory(), newScripted()
				s.answer = func(n int, c sent) *alerts.Attempt {
					if (n+seed)%3 != 0 {
						return nil
					}
					switch (n / 3) % 3 {
					case 0:
						return outcome(alerts.Again)
					case 1:
						return outcome(alerts.Unknown)
					default:
						s.acceptLocked(c.d, c.root)
						return outcome(alerts.Unknown)
					}
				}
				kills := 4
				tale := story
				for k := range kills {
					life(t, box, s, 5+(seed*7+k*13)%40, tale)
					tale = nothing
				}
				life(t, box, s, -1, nothing)
				audit(t, box, s, 0)
			})
		})
	}
}

func TestUnrecordedPagesGoOutMarkedAndAreRecordedLater(t *testing.T) {
	try(t, func(r *rig) {
		r.box.SetDown(true)
		r.start()
		pass(time.Second)
		taken := r.d.Unrecorded([]alerts.Delivery{
			delivery("i", 1, alerts.Post, ping), delivery("w", 1, alerts.Post), delivery("s", 1, alerts.Post, ping, in(alerts.Dropped)),
		})
		pass(time.Second)
		if taken != 1 {
			t.Errorf("took %d, want only the page", taken)
		}
		expect(t, "attempts", r.page.String(), "post1+!")
		if !r.page.calls()[0].d.Note.Unrecorded {
			t.Error("not marked as unrecorded")
		}
		r.d.Unrecorded([]alerts.Delivery{delivery("i", 2, alerts.Edit), delivery("i", 2, alerts.Reply, ping)})
		pass(2 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+! reply2!")

		r.box.SetDown(false)
		// The engine records in the end what it could not, under other IDs.
		r.put(delivery("i", 1, alerts.Post, ping), delivery("i", 2, alerts.Edit), delivery("i", 2, alerts.Reply, ping), delivery("w", 1, alerts.Post))
		pass(5 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+! reply2! post1+ edit2")
		if s := r.states(); strings.Count(s, ":sent") != 4 || len(r.box.All()) != 4 {
			t.Errorf("states: %s", s)
		}
		ref, _ := r.box.Root(context.Background(), "i", alerts.ToPage)
		if ref == (alerts.Ref{}) {
			t.Error("where the message stands was not recorded")
		}
	})
}

// That signals are missing goes out unrecorded although it pings nobody; edits of it
// wait for the record.
func TestUnrecordedBlindnessGoesOut(t *testing.T) {
	try(t, func(r *rig) {
		r.box.SetDown(true)
		r.start()
		blind := func(d *alerts.Delivery) { d.Note.Incident.Key.Rule = engine.SignalMissing }
		if taken := r.d.Unrecorded([]alerts.Delivery{delivery("i", 1, alerts.Post, blind)}); taken != 1 {
			t.Errorf("took %d, want 1", taken)
		}
		pass(time.Second)
		if taken := r.d.Unrecorded([]alerts.Delivery{delivery("i", 2, alerts.Edit, blind), delivery("i", 2, alerts.Reply, blind)}); taken != 1 {
			t.Errorf("took %d of an edit and a reply, want the reply", taken)
		}
		pass(2 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+ reply2")
		if !r.page.calls()[0].d.Note.Unrecorded {
			t.Error("not marked as unrecorded")
		}
		r.box.SetDown(false)
		pass(5 * time.Second)
		expect(t, "states", r.states(), "post1@page:sent reply2@page:sent")
	})
}

// A notice that cannot be recorded goes out at once, and has been sent once it can.
func TestUnrecordedNoticeGoesOut(t *testing.T) {
	try(t, func(r *rig) {
		r.box.SetDown(true)
		r.start()
		notice := alerts.Routes{Page: "C1"}.Notice("d-1", "c-1", "main", "so it is", time.Now())
		if taken := r.d.Unrecorded([]alerts.Delivery{notice}); taken != 1 {
			t.Errorf("took %d, want 1", taken)
		}
		pass(time.Second)
		expect(t, "attempts", r.page.String(), "post1+")
		r.box.SetDown(false)
		pass(5 * time.Second)
		expect(t, "states", r.states(), "post1@page:sent")
	})
}

func TestUnrecordedIsJournalledBeforeTheEngineComesBack(t *testing.T) {
	try(t, func(r *rig) {
		r.box.SetDown(true)
		r.start()
		r.d.Unrecorded([]alerts.Delivery{delivery("i", 1, alerts.Post, ping)})
		pass(time.Second)
		r.box.SetDown(false)
		pass(10 * time.Second)
		expect(t, "states", r.states(), "post1@page:sent")
		r.put(delivery("i", 1, alerts.Post, ping))
		pass(5 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+!")
	})
}

func TestMemoryForUnrecordedPagesIsBounded(t *testing.T) {
	try(t, func(r *rig) {
		r.o.MaxUnrecorded = 3
		r.box.SetDown(true)
		r.page.answer = func(int, sent) *alerts.Attempt { return outcome(alerts.Again) }
		r.start()
		for i := range 10 {
			r.d.Unrecorded([]alerts.Delivery{delivery(fmt.Sprint(i), 1, alerts.Post, ping)})
			synctest.Wait()
		}
		if n := r.metric(alerts.ToPage, alerts.ResultLost); n != 7 {
			t.Errorf("%d counted as lost, want 7", n)
		}
		var incs []string
		pass(10 * time.Second)
		for _, c := range r.page.calls() {
			incs = append(incs, c.d.Incident)
		}
		slices.Sort(incs)
		if got := slices.Compact(incs); len(got) > 3 {
			t.Errorf("sent %v, want no more than three", got)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.d.Stop(ctx); err == nil || !strings.Contains(err.Error(), "3") {
			t.Errorf("Stop: %v, want that 3 could not be recorded", err)
		}
		r.d = nil
	})
}

func TestAPageGoesOutThoughItsClaimCannotBeRecorded(t *testing.T) {
	try(t, func(r *rig) {
		r.put(delivery("p", 1, alerts.Post, ping), delivery("w", 1, alerts.Post))
		r.box.SetHook(func(op string) error {
			if op == "save" {
				return errors.New("the disk is full")
			}
			return nil
		})
		r.start()
		pass(20 * time.Second)
		if calls := r.page.calls(); len(calls) != 1 || calls[0].d.Incident != "p" {
			t.Fatalf("attempts %s, want the page and only once", r.page)
		}
		r.box.SetHook(nil)
		pass(10 * time.Second)
		expect(t, "states", r.states(), "post1@page:sent post1@page:sent")
		if n := len(r.page.calls()); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
	})
}
