package alerts_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/alerts"
	"headgate/alerts/outboxtest"
	"headgate/engine"
)

// try runs a deliverer on the virtual clock.
func try(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, outboxtest.NewMemory())
		f(r)
		if r.d != nil {
			r.stop()
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s\nwant %s", what, got, want)
	}
}

func outcome(o alerts.Outcome) *alerts.Attempt {
	return &alerts.Attempt{Outcome: o, Reason: "a reason"}
}

// first answers the first n attempts with a, and lets the others arrive.
func first(n int, a *alerts.Attempt) func(int, sent) *alerts.Attempt {
	return func(i int, _ sent) *alerts.Attempt {
		if i <= n {
			return a
		}
		return nil
	}
}

func TestOneIncidentIsOneMessage(t *testing.T) {
	try(t, func(r *rig) {
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		pass(2 * time.Second)
		r.put(delivery("i", 2, alerts.Edit), delivery("i", 2, alerts.Reply, ping))
		pass(2 * time.Second)
		r.put(delivery("i", 3, alerts.Edit, over), delivery("i", 3, alerts.Reply, over))
		pass(3 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+! edit2 reply2! edit3 reply3")
		root := r.page.stands[alerts.Key{Incident: "i", Seq: 1, Kind: alerts.Post, Destination: alerts.ToPage}]
		for _, c := range r.page.calls()[1:] {
			if c.root != root {
				t.Errorf("%s%d was sent below %v, want %v", c.d.Kind, c.d.Seq, c.root, root)
			}
		}
		if n := r.metric(alerts.ToPage, alerts.ResultSent); n != 5 {
			t.Errorf("%d counted as sent, want 5", n)
		}
	})
}

func TestOnePostASecondAndChannel(t *testing.T) {
	try(t, func(r *rig) {
		r.start()
		for _, inc := range []string{"a", "b", "c", "d"} {
			r.put(delivery(inc, 1, alerts.Post))
		}
		r.put(delivery("e", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToFallback }))
		pass(10 * time.Second)
		calls := r.page.calls()
		if len(calls) != 4 || len(r.spare.calls()) != 1 {
			t.Fatalf("%d and %d attempts, want 4 and 1", len(calls), len(r.spare.calls()))
		}
		for i, c := range calls[1:] {
			if gap := c.at.Sub(calls[i].at); gap < time.Second || gap > 1100*time.Millisecond {
				t.Errorf("%s between two posts, want a second", gap)
			}
		}
		if d := r.spare.calls()[0].at.Sub(calls[0].at); d > 100*time.Millisecond {
			t.Errorf("another channel waited for %s", d)
		}
	})
}

func TestPagesGoAhead(t *testing.T) {
	try(t, func(r *rig) {
		for _, inc := range []string{"a", "b", "c"} {
			r.put(delivery(inc, 1, alerts.Post))
		}
		pass(time.Second)
		r.put(delivery("z", 1, alerts.Post, ping))
		r.start()
		pass(5 * time.Second)
		if got := r.page.calls()[0].d.Incident; got != "z" {
			t.Errorf("%s was sent first, want the page", got)
		}
	})
}

func TestOnlyTheNewestEditSurvives(t *testing.T) {
	try(t, func(r *rig) {
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(time.Second)
		r.put(delivery("i", 2, alerts.Edit), delivery("i", 3, alerts.Edit), delivery("i", 4, alerts.Edit))
		pass(5 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+ edit4")
		expect(t, "states", r.states(), "post1@page:sent edit2@page:dropped edit3@page:dropped edit4@page:sent")
		if n := r.metric(alerts.ToPage, alerts.ResultDropped); n != 2 {
			t.Errorf("%d counted as dropped, want 2", n)
		}
	})
}

func TestFiredAndResolvedBeforeAnythingLeft(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = first(1, &alerts.Attempt{Outcome: alerts.Again, After: 30 * time.Second, Reason: "rate limited"})
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		pass(time.Second)
		r.put(delivery("i", 2, alerts.Edit, over), delivery("i", 2, alerts.Reply, over, ping))
		pass(28 * time.Second)
		expect(t, "attempts while held", r.page.String(), "post1+!")
		pass(10 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+! post1+!")
		last := r.page.calls()[1]
		if n := last.d.Note; !n.Combined || n.Incident.Open() || n.Event.Kind != engine.EventResolved {
			t.Errorf("the message does not say that it is over: %+v", n)
		}
		if gap := last.at.Sub(r.page.calls()[0].at); gap < 30*time.Second || gap > 31*time.Second {
			t.Errorf("sent again after %s, want 30 s", gap)
		}
		expect(t, "states", r.states(), "post1@page:sent edit2@page:dropped reply2@page:dropped")
	})
}

func TestBackoffDoublesUpToItsMax(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = first(8, outcome(alerts.Again))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(5 * time.Minute)
		calls := r.page.calls()
		if len(calls) != 9 {
			t.Fatalf("%d attempts, want 9", len(calls))
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
			gap := calls[i+1].at.Sub(calls[i].at).Round(100 * time.Millisecond)
			if gap != want*time.Second {
				t.Errorf("pause %d is %s, want %d s", i+1, gap, want)
			}
		}
		if !calls[8].d.Note.Late || calls[0].d.Note.Late {
			t.Error("only what is sent much later says so")
		}
	})
}

func TestJitterIsFull(t *testing.T) {
	try(t, func(r *rig) {
		r.o.Random = func() float64 { return 0 }
		r.page.answer = first(2, outcome(alerts.Again))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(5 * time.Second)
		calls := r.page.calls()
		if len(calls) != 3 {
			t.Fatalf("%d attempts, want 3", len(calls))
		}
		if gap := calls[1].at.Sub(calls[0].at); gap < time.Second {
			t.Errorf("sent again after %s: the channel takes one post a second", gap)
		}
	})
}

func TestWhatAReceiverAsksForIsBounded(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = first(1, &alerts.Attempt{Outcome: alerts.Again, After: 1000 * time.Hour})
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(16 * time.Minute)
		expect(t, "attempts", r.page.String(), "post1+ post1+")
	})
}

func TestUnknownIsLookedForBeforeItIsSentAgain(t *testing.T) {
	tests := []struct {
		name    string
		arrived bool
		want    string
		repeat  bool
	}{
		{"it had arrived", true, "post1+! find1 edit2", false},
		{"it had not", false, "post1+! find1 post1+!", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			try(t, func(r *rig) {
				r.page.answer = func(i int, s sent) *alerts.Attempt {
					if i > 1 {
						return nil
					}
					if tt.arrived {
						r.page.acceptLocked(s.d, s.root)
					}
					return outcome(alerts.Unknown)
				}
				r.start()
				r.put(delivery("i", 1, alerts.Post, ping))
				pass(time.Second)
				r.put(delivery("i", 2, alerts.Edit))
				pass(10 * time.Second)
				expect(t, "attempts", r.page.String(), tt.want)
				calls := r.page.calls()
				if calls[2].d.Note.Repeat != tt.repeat {
					t.Errorf("marked as a repeat: %v, want %v", calls[2].d.Note.Repeat, tt.repeat)
				}
				if gap := calls[1].at.Sub(calls[0].at); gap < 2*time.Second {
					t.Errorf("looked after %s: what is under way needs time to arrive", gap)
				}
				if n := r.page.texts["i root 1"]; n != 1 {
					t.Errorf("%d first messages, want 1", n)
				}
			})
		})
	}
}

func TestAnUnknownEditIsSentAgainAtOnce(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = func(i int, _ sent) *alerts.Attempt {
			if i == 2 {
				return outcome(alerts.Unknown)
			}
			return nil
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(2 * time.Second)
		r.put(delivery("i", 2, alerts.Edit))
		pass(5 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+ edit2 edit2")
	})
}

func TestALookThatFailsIsRepeated(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = first(1, outcome(alerts.Unknown))
		r.page.look = func(i int, s sent) (alerts.Ref, bool, error) {
			if i < 4 {
				return alerts.Ref{}, false, errors.New("down")
			}
			return alerts.Ref{Channel: "C", TS: "9.9"}, true, nil
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(time.Minute)
		expect(t, "attempts", r.page.String(), "post1+ find1 find1 find1")
		expect(t, "states", r.states(), "post1@page:sent")
		ref, _ := r.box.Root(context.Background(), "i", alerts.ToPage)
		if ref.TS != "9.9" {
			t.Errorf("the message stands at %v", ref)
		}
	})
}

func TestWhatCannotBeFoundOutIsSentOnceMoreAndMarked(t *testing.T) {
	cannot := func(int, sent) (alerts.Ref, bool, error) { return alerts.Ref{}, false, alerts.ErrCannotTell }
	t.Run("it arrives then", func(t *testing.T) {
		try(t, func(r *rig) {
			r.page.answer, r.page.look = first(1, outcome(alerts.Unknown)), cannot
			r.start()
			r.put(delivery("i", 1, alerts.Post))
			pass(time.Minute)
			expect(t, "attempts", r.page.String(), "post1+ find1 post1+")
			if !r.page.calls()[2].d.Note.Repeat {
				t.Error("the second copy is not marked")
			}
		})
	})
	t.Run("or goes to the fallback", func(t *testing.T) {
		try(t, func(r *rig) {
			r.page.answer = func(int, sent) *alerts.Attempt { return outcome(alerts.Unknown) }
			r.page.look = cannot
			r.start()
			r.put(delivery("i", 1, alerts.Post))
			pass(time.Minute)
			expect(t, "attempts", r.page.String(), "post1+ find1 post1+ find1")
			expect(t, "states", r.states(), "post1@page:dead post1@fallback:sent")
		})
	})
}

func TestTheLastResortIsTriedNowAndThen(t *testing.T) {
	try(t, func(r *rig) {
		r.spare.answer = first(4, outcome(alerts.Unknown))
		r.spare.look = func(int, sent) (alerts.Ref, bool, error) { return alerts.Ref{}, false, alerts.ErrCannotTell }
		r.start()
		r.put(delivery("i", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToFallback }))
		pass(time.Minute)
		expect(t, "attempts in a minute", r.spare.String(), "post1+ find1 post1+ find1")
		pass(10 * time.Minute)
		if s := r.states(); s != "post1@fallback:sent" || len(r.stuck) != 0 {
			t.Errorf("%s, %d stuck: the last resort does not give up", s, len(r.stuck))
		}
	})
}

func TestNeverGoesToTheFallbackWithTheReason(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = func(int, sent) *alerts.Attempt {
			return &alerts.Attempt{Outcome: alerts.Never, Reason: "is_archived"}
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		pass(3 * time.Second)
		r.put(delivery("i", 2, alerts.Edit, over), delivery("i", 2, alerts.Reply, over))
		pass(5 * time.Second)
		expect(t, "fallback", r.spare.String(), "post1+! edit2")
		n := r.spare.calls()[0].d.Note
		if n.Diverted != "is_archived" || n.From != alerts.ToPage {
			t.Errorf("diverted from %q because %q", n.From, n.Diverted)
		}
		if len(r.stuck) == 0 || r.stuck[0].State != alerts.Dead || r.stuck[0].Reason != "is_archived" {
			t.Errorf("stuck: %+v", r.stuck)
		}
		if r.metric(alerts.ToPage, alerts.ResultDead) == 0 {
			t.Error("not counted as dead")
		}
	})
}

func TestNeverAtTheFallbackIsDead(t *testing.T) {
	try(t, func(r *rig) {
		never := func(int, sent) *alerts.Attempt { return outcome(alerts.Never) }
		r.page.answer, r.spare.answer = never, never
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(10 * time.Second)
		expect(t, "states", r.states(), "post1@page:dead post1@fallback:dead")
		if len(r.stuck) != 2 {
			t.Errorf("%d stuck, want 2", len(r.stuck))
		}
	})
}

func TestADestinationThatIsNotSetAnyMore(t *testing.T) {
	try(t, func(r *rig) {
		r.start()
		r.put(delivery("i", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToDrills }))
		r.put(delivery("j", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination, d.State = alerts.ToWarn, alerts.Uncertain }))
		pass(30 * time.Second)
		if got := r.spare.String(); got != "post1+ post1+" {
			t.Errorf("fallback: %s", got)
		}
	})
}

func TestMalformedIsSentAsText(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = first(1, outcome(alerts.Malformed))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(5 * time.Second)
		calls := r.page.calls()
		if len(calls) != 2 || calls[0].plain || !calls[1].plain {
			t.Fatalf("attempts %s, want one with blocks and one without", r.page)
		}
	})
	try(t, func(r *rig) {
		r.page.answer = func(int, sent) *alerts.Attempt { return outcome(alerts.Malformed) }
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(5 * time.Second)
		expect(t, "states", r.states(), "post1@page:dead post1@fallback:sent")
	})
}

func TestADeletedMessageIsPostedAnew(t *testing.T) {
	for _, kind := range []alerts.Kind{alerts.Edit, alerts.Reply} {
		t.Run(string(kind), func(t *testing.T) {
			try(t, func(r *rig) {
				r.page.answer = func(i int, _ sent) *alerts.Attempt {
					if i == 2 {
						return outcome(alerts.RootGone)
					}
					return nil
				}
				r.start()
				r.put(delivery("i", 1, alerts.Post))
				pass(2 * time.Second)
				before, _ := r.box.Root(context.Background(), "i", alerts.ToPage)
				r.put(delivery("i", 2, kind))
				pass(4 * time.Second)
				r.put(delivery("i", 3, alerts.Edit))
				pass(4 * time.Second)
				k := string(kind)
				expect(t, "attempts", r.page.String(), "post1+ "+k+"2 "+k+"2+ edit3")
				after, _ := r.box.Root(context.Background(), "i", alerts.ToPage)
				if after == before || after != r.page.calls()[3].root {
					t.Errorf("it stood at %v, now at %v", before, after)
				}
			})
		})
	}
}

func TestAPostWhereAMessageStandsAlreadyRingsInItsThread(t *testing.T) {
	try(t, func(r *rig) {
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		pass(2 * time.Second)
		r.put(delivery("i", 5, alerts.Post, ping, over))
		pass(4 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+! post5! reply5!")
		if n := r.page.texts["i root 5"]; n != 0 {
			t.Errorf("%d further messages", n)
		}
	})
}

func TestArrivedWithoutAPlaceIsNotTrusted(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = first(1, &alerts.Attempt{Outcome: alerts.Arrived})
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(10 * time.Second)
		expect(t, "attempts", r.page.String(), "post1+ find1 post1+")
	})
}

func TestWhatWasBeingSentWhenTheProcessEndedIsLookedFor(t *testing.T) {
	try(t, func(r *rig) {
		r.put(delivery("i", 1, alerts.Post, in(alerts.Sending), func(d *alerts.Delivery) { d.Tried = d.Created }))
		r.start()
		pass(time.Second)
		expect(t, "attempts at first", r.page.String(), "")
		pass(5 * time.Second)
		expect(t, "attempts", r.page.String(), "find1 post1+")
	})
}

func TestOldestPending(t *testing.T) {
	const name = "headgate_delivery_oldest_pending_seconds"
	try(t, func(r *rig) {
		r.page.answer = first(4, outcome(alerts.Again))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(5 * time.Second)
		if v := gauge(t, r.reg, name); v < 4.9 || v > 5.1 {
			t.Errorf("%v s, want 5", v)
		}
		pass(time.Minute)
		if v := gauge(t, r.reg, name); v != 0 {
			t.Errorf("%v s after it arrived, want 0", v)
		}
	})
}

func TestASlowChannelHoldsUpNoOther(t *testing.T) {
	try(t, func(r *rig) {
		r.page.wait = func(ctx context.Context, _ sent) { <-ctx.Done() }
		r.page.answer = func(int, sent) *alerts.Attempt { return outcome(alerts.Unknown) }
		r.start()
		r.put(delivery("i", 1, alerts.Post), delivery("j", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToFallback }))
		pass(time.Second)
		expect(t, "the other channel", r.spare.String(), "post1+")
		pass(20 * time.Second)
		if calls := r.page.calls(); len(calls) < 2 || !calls[1].find {
			t.Errorf("attempts %s: the attempt ends by itself and is looked for", r.page)
		}
	})
}

func TestAPanicIsAMalformedMessage(t *testing.T) {
	try(t, func(r *rig) {
		r.page.answer = func(i int, _ sent) *alerts.Attempt {
			if i == 1 {
				panic("secret")
			}
			return nil
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(5 * time.Second)
		expect(t, "states", r.states(), "post1@page:sent")
		if strings.Contains(r.log.String(), "secret") {
			t.Error("the log tells what the panic said")
		}
	})
}

func TestStop(t *testing.T) {
	try(t, func(r *rig) { // breaks off what hangs, and leaves it to be looked for
		r.page.wait = func(ctx context.Context, _ sent) { <-ctx.Done() }
		r.page.answer = func(int, sent) *alerts.Attempt { return outcome(alerts.Unknown) }
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		before := time.Now()
		if err := r.d.Stop(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > 4*time.Second {
			t.Errorf("Stop took %s", took)
		}
		expect(t, "states", r.states(), "post1@page:uncertain")
	})
	try(t, func(r *rig) { // before Start, and twice
		d, err := alerts.New(r.o)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := d.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
		d.Start()
		r.put(delivery("i", 1, alerts.Post))
		pass(time.Minute)
		expect(t, "attempts after Stop", r.page.String(), "")
	})
	try(t, func(r *rig) { // a sender that does not obey its context
		free := make(chan struct{})
		r.page.wait = func(context.Context, sent) { <-free }
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		pass(time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		before := time.Now()
		_ = r.d.Stop(ctx)
		if took := time.Since(before); took > 2*time.Second {
			t.Errorf("Stop took %s", took)
		}
		expect(t, "states", r.states(), "post1@page:sending")
		close(free)
		synctest.Wait()
	})
}

func TestOptionsAreChecked(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*alerts.Options)
		want  string
	}{
		{"no outbox", func(o *alerts.Options) { o.Outbox = nil }, "outbox"},
		{"no log", func(o *alerts.Options) { o.Log = nil }, "log"},
		{"a channel without a sender", func(o *alerts.Options) { o.Routes.Drills = "drills" }, `"drills"`},
		{"a negative pause", func(o *alerts.Options) { o.Spacing = -1 }, "negative"},
		{"a negative bound", func(o *alerts.Options) { o.MaxUnrecorded = -1 }, "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, outboxtest.NewMemory())
			tt.spoil(&r.o)
			if _, err := alerts.New(r.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %s", err, tt.want)
			}
		})
	}
}
