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

// withSynctest runs a dispatcher on the virtual clock.
func withSynctest(t *testing.T, f func(r *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, outboxtest.NewMemory())
		f(r)
		if r.dispatcher != nil {
			r.stop()
		}
	})
}

func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func wantString(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s\nwant %s", what, got, want)
	}
}

func outcome(o alerts.Outcome) *alerts.SendResult {
	return &alerts.SendResult{Outcome: o, Reason: "a reason"}
}

// firstCalls answers the first n attempts with a, and lets the others arrive.
func firstCalls(n int, a *alerts.SendResult) func(int, call) *alerts.SendResult {
	return func(i int, _ call) *alerts.SendResult {
		if i <= n {
			return a
		}
		return nil
	}
}

func TestOneMessagePerIncident(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		advance(2 * time.Second)
		r.put(delivery("i", 2, alerts.Edit), delivery("i", 2, alerts.Reply, ping))
		advance(2 * time.Second)
		r.put(delivery("i", 3, alerts.Edit, resolved), delivery("i", 3, alerts.Reply, resolved))
		advance(3 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+! edit2 reply2! edit3 reply3")
		root := r.page.messages[alerts.Key{Incident: "i", Seq: 1, Kind: alerts.Post, Destination: alerts.ToPage}]
		for _, c := range r.page.calls()[1:] {
			if c.root != root {
				t.Errorf("%s%d was sent below %v, want %v", c.delivery.Kind, c.delivery.Seq, c.root, root)
			}
		}
		if n := r.metric(alerts.ToPage, alerts.Sent); n != 5 {
			t.Errorf("%d counted as sent, want 5", n)
		}
	})
}

func TestPostRatePerChannel(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.start()
		for _, inc := range []string{"a", "b", "c", "d"} {
			r.put(delivery(inc, 1, alerts.Post))
		}
		r.put(delivery("e", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToFallback }))
		advance(10 * time.Second)
		calls := r.page.calls()
		if len(calls) != 4 || len(r.fallback.calls()) != 1 {
			t.Fatalf("%d and %d attempts, want 4 and 1", len(calls), len(r.fallback.calls()))
		}
		for i, c := range calls[1:] {
			if gap := c.at.Sub(calls[i].at); gap < time.Second || gap > 1100*time.Millisecond {
				t.Errorf("%s between two posts, want a second", gap)
			}
		}
		if d := r.fallback.calls()[0].at.Sub(calls[0].at); d > 100*time.Millisecond {
			t.Errorf("another channel waited for %s", d)
		}
	})
}

func TestPagesFirst(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		for _, inc := range []string{"a", "b", "c"} {
			r.put(delivery(inc, 1, alerts.Post))
		}
		advance(time.Second)
		r.put(delivery("z", 1, alerts.Post, ping))
		r.start()
		advance(5 * time.Second)
		if got := r.page.calls()[0].delivery.Incident; got != "z" {
			t.Errorf("%s was sent first, want the page", got)
		}
	})
}

func TestNewestEditWins(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(time.Second)
		r.put(delivery("i", 2, alerts.Edit), delivery("i", 3, alerts.Edit), delivery("i", 4, alerts.Edit))
		advance(5 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+ edit4")
		wantString(t, "states", r.states(), "post1@page:sent edit2@page:dropped edit3@page:dropped edit4@page:sent")
		if n := r.metric(alerts.ToPage, alerts.Dropped); n != 2 {
			t.Errorf("%d counted as dropped, want 2", n)
		}
	})
}

func TestCombinedFirstMessage(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = firstCalls(1, &alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: 30 * time.Second, Reason: "rate limited"})
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		advance(time.Second)
		r.put(delivery("i", 2, alerts.Edit, resolved), delivery("i", 2, alerts.Reply, resolved, ping))
		advance(28 * time.Second)
		wantString(t, "attempts while held", r.page.String(), "post1+!")
		advance(10 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+! post1+!")
		last := r.page.calls()[1]
		if n := last.delivery.Notification; !n.Combined || n.Incident.Open() || n.Event.Kind != engine.EventResolved {
			t.Errorf("the message does not say that it is over: %+v", n)
		}
		if gap := last.at.Sub(r.page.calls()[0].at); gap < 30*time.Second || gap > 31*time.Second {
			t.Errorf("sent again after %s, want 30 s", gap)
		}
		wantString(t, "states", r.states(), "post1@page:sent edit2@page:dropped reply2@page:dropped")
	})
}

func TestBackoffGrows(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = firstCalls(8, outcome(alerts.RetryLater))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(5 * time.Minute)
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
		if !calls[8].delivery.Notification.Late || calls[0].delivery.Notification.Late {
			t.Error("want only the delayed delivery marked as late")
		}
	})
}

func TestFullJitter(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.opts.Random = func() float64 { return 0 }
		r.page.answer = firstCalls(2, outcome(alerts.RetryLater))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(5 * time.Second)
		calls := r.page.calls()
		if len(calls) != 3 {
			t.Fatalf("%d attempts, want 3", len(calls))
		}
		if gap := calls[1].at.Sub(calls[0].at); gap < time.Second {
			t.Errorf("sent again after %s: the channel takes one post a second", gap)
		}
	})
}

func TestRetryAfterIsLimited(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = firstCalls(1, &alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: 1000 * time.Hour})
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(16 * time.Minute)
		wantString(t, "attempts", r.page.String(), "post1+ post1+")
	})
}

func TestAmbiguousPostIsLookedUp(t *testing.T) {
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
			withSynctest(t, func(r *fixture) {
				r.page.answer = func(i int, s call) *alerts.SendResult {
					if i > 1 {
						return nil
					}
					if tt.arrived {
						r.page.acceptLocked(s.delivery, s.root)
					}
					return outcome(alerts.Ambiguous)
				}
				r.start()
				r.put(delivery("i", 1, alerts.Post, ping))
				advance(time.Second)
				r.put(delivery("i", 2, alerts.Edit))
				advance(10 * time.Second)
				wantString(t, "attempts", r.page.String(), tt.want)
				calls := r.page.calls()
				if calls[2].delivery.Notification.PossibleDuplicate != tt.repeat {
					t.Errorf("marked as a repeat: %v, want %v", calls[2].delivery.Notification.PossibleDuplicate, tt.repeat)
				}
				if gap := calls[1].at.Sub(calls[0].at); gap < 2*time.Second {
					t.Errorf("looked after %s: what is under way needs time to arrive", gap)
				}
				if n := r.page.visible["i root 1"]; n != 1 {
					t.Errorf("%d first messages, want 1", n)
				}
			})
		})
	}
}

func TestAmbiguousEditIsRepeated(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = func(i int, _ call) *alerts.SendResult {
			if i == 2 {
				return outcome(alerts.Ambiguous)
			}
			return nil
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(2 * time.Second)
		r.put(delivery("i", 2, alerts.Edit))
		advance(5 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+ edit2 edit2")
	})
}

func TestFailedLookupIsRepeated(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = firstCalls(1, outcome(alerts.Ambiguous))
		r.page.lookup = func(i int, s call) (alerts.Ref, bool, error) {
			if i < 4 {
				return alerts.Ref{}, false, errors.New("down")
			}
			return alerts.Ref{Channel: "C", TS: "9.9"}, true, nil
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(time.Minute)
		wantString(t, "attempts", r.page.String(), "post1+ find1 find1 find1")
		wantString(t, "states", r.states(), "post1@page:sent")
		ref, _ := r.box.Thread(context.Background(), "i", alerts.ToPage)
		if ref.TS != "9.9" {
			t.Errorf("the message stands at %v", ref)
		}
	})
}

func TestResendWithoutLookup(t *testing.T) {
	cannot := func(int, call) (alerts.Ref, bool, error) { return alerts.Ref{}, false, alerts.ErrLookupUnavailable }
	t.Run("it arrives then", func(t *testing.T) {
		withSynctest(t, func(r *fixture) {
			r.page.answer, r.page.lookup = firstCalls(1, outcome(alerts.Ambiguous)), cannot
			r.start()
			r.put(delivery("i", 1, alerts.Post))
			advance(time.Minute)
			wantString(t, "attempts", r.page.String(), "post1+ find1 post1+")
			if !r.page.calls()[2].delivery.Notification.PossibleDuplicate {
				t.Error("the second copy is not marked")
			}
		})
	})
	t.Run("or goes to the fallback", func(t *testing.T) {
		withSynctest(t, func(r *fixture) {
			r.page.answer = func(int, call) *alerts.SendResult { return outcome(alerts.Ambiguous) }
			r.page.lookup = cannot
			r.start()
			r.put(delivery("i", 1, alerts.Post))
			advance(time.Minute)
			wantString(t, "attempts", r.page.String(), "post1+ find1 post1+ find1")
			wantString(t, "states", r.states(), "post1@page:dead post1@fallback:sent")
		})
	})
}

func TestFallbackKeepsRetrying(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.fallback.answer = firstCalls(4, outcome(alerts.Ambiguous))
		r.fallback.lookup = func(int, call) (alerts.Ref, bool, error) { return alerts.Ref{}, false, alerts.ErrLookupUnavailable }
		r.start()
		r.put(delivery("i", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToFallback }))
		advance(time.Minute)
		wantString(t, "attempts in a minute", r.fallback.String(), "post1+ find1 post1+ find1")
		advance(10 * time.Minute)
		wantString(t, "states", r.states(), "post1@fallback:sent")
	})
}

func TestPermanentFailureUsesFallback(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = func(int, call) *alerts.SendResult {
			return &alerts.SendResult{Outcome: alerts.PermanentFailure, Reason: "is_archived"}
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		advance(3 * time.Second)
		r.put(delivery("i", 2, alerts.Edit, resolved), delivery("i", 2, alerts.Reply, resolved))
		advance(5 * time.Second)
		wantString(t, "fallback", r.fallback.String(), "post1+! edit2")
		n := r.fallback.calls()[0].delivery.Notification
		if n.FallbackReason != "is_archived" || n.FallbackFrom != alerts.ToPage {
			t.Errorf("diverted from %q because %q", n.FallbackFrom, n.FallbackReason)
		}
		if d := r.box.All()[0]; d.State != alerts.Dead || d.Reason != "is_archived" {
			t.Errorf("%+v, want a dead delivery with its reason", d)
		}
		if r.metric(alerts.ToPage, alerts.Dead) == 0 || !strings.Contains(r.log.String(), "is_archived") {
			t.Errorf("not counted and logged as dead: %s", r.log)
		}
	})
}

func TestPermanentFailureOfFallback(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		never := func(int, call) *alerts.SendResult { return outcome(alerts.PermanentFailure) }
		r.page.answer, r.fallback.answer = never, never
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(10 * time.Second)
		wantString(t, "states", r.states(), "post1@page:dead post1@fallback:dead")
	})
}

func TestUnconfiguredDestination(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.start()
		r.put(delivery("i", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToDrills }))
		r.put(delivery("j", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination, d.State = alerts.ToWarn, alerts.Uncertain }))
		advance(30 * time.Second)
		if got := r.fallback.String(); got != "post1+ post1+" {
			t.Errorf("fallback: %s", got)
		}
	})
}

func TestMalformedIsSentAsPlainText(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = firstCalls(1, outcome(alerts.Malformed))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(5 * time.Second)
		calls := r.page.calls()
		if len(calls) != 2 || calls[0].plain || !calls[1].plain {
			t.Fatalf("attempts %s, want one with blocks and one without", r.page)
		}
	})
	withSynctest(t, func(r *fixture) {
		r.page.answer = func(int, call) *alerts.SendResult { return outcome(alerts.Malformed) }
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(5 * time.Second)
		wantString(t, "states", r.states(), "post1@page:dead post1@fallback:sent")
	})
}

func TestDeletedMessageIsPostedAgain(t *testing.T) {
	for _, kind := range []alerts.Kind{alerts.Edit, alerts.Reply} {
		t.Run(string(kind), func(t *testing.T) {
			withSynctest(t, func(r *fixture) {
				r.page.answer = func(i int, _ call) *alerts.SendResult {
					if i == 2 {
						return outcome(alerts.ThreadGone)
					}
					return nil
				}
				r.start()
				r.put(delivery("i", 1, alerts.Post))
				advance(2 * time.Second)
				before, _ := r.box.Thread(context.Background(), "i", alerts.ToPage)
				r.put(delivery("i", 2, kind))
				advance(4 * time.Second)
				r.put(delivery("i", 3, alerts.Edit))
				advance(4 * time.Second)
				k := string(kind)
				wantString(t, "attempts", r.page.String(), "post1+ "+k+"2 "+k+"2+ edit3")
				after, _ := r.box.Thread(context.Background(), "i", alerts.ToPage)
				if after == before || after != r.page.calls()[3].root {
					t.Errorf("it stood at %v, now at %v", before, after)
				}
			})
		})
	}
}

func TestPostIntoExistingThreadPings(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.start()
		r.put(delivery("i", 1, alerts.Post, ping))
		advance(2 * time.Second)
		r.put(delivery("i", 5, alerts.Post, ping, resolved))
		advance(4 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+! post5! reply5!")
		if n := r.page.visible["i root 5"]; n != 0 {
			t.Errorf("%d further messages", n)
		}
	})
}

func TestDeliveredWithoutRefIsAmbiguous(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = firstCalls(1, &alerts.SendResult{Outcome: alerts.Delivered})
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(10 * time.Second)
		wantString(t, "attempts", r.page.String(), "post1+ find1 post1+")
	})
}

func TestSendingAfterRestartIsLookedUp(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.put(delivery("i", 1, alerts.Post, inState(alerts.Sending), func(d *alerts.Delivery) { d.LastAttempt = d.Created }))
		r.start()
		advance(time.Second)
		wantString(t, "attempts at first", r.page.String(), "")
		advance(5 * time.Second)
		wantString(t, "attempts", r.page.String(), "find1 post1+")
	})
}

func TestOldestPending(t *testing.T) {
	const name = "headgate_delivery_oldest_pending_seconds"
	withSynctest(t, func(r *fixture) {
		r.page.answer = firstCalls(4, outcome(alerts.RetryLater))
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(5 * time.Second)
		if v := gauge(t, r.reg, name); v < 4.9 || v > 5.1 {
			t.Errorf("%v s, want 5", v)
		}
		advance(time.Minute)
		if v := gauge(t, r.reg, name); v != 0 {
			t.Errorf("%v s after it arrived, want 0", v)
		}
	})
}

func TestSlowChannelBlocksNoOther(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.wait = func(ctx context.Context, _ call) { <-ctx.Done() }
		r.page.answer = func(int, call) *alerts.SendResult { return outcome(alerts.Ambiguous) }
		r.start()
		r.put(delivery("i", 1, alerts.Post), delivery("j", 1, alerts.Post, func(d *alerts.Delivery) { d.Destination = alerts.ToFallback }))
		advance(time.Second)
		wantString(t, "the other channel", r.fallback.String(), "post1+")
		advance(20 * time.Second)
		if calls := r.page.calls(); len(calls) < 2 || !calls[1].lookup {
			t.Errorf("attempts %s: the attempt ends by itself and is looked for", r.page)
		}
	})
}

func TestNotifierPanic(t *testing.T) {
	withSynctest(t, func(r *fixture) {
		r.page.answer = func(i int, _ call) *alerts.SendResult {
			if i == 1 {
				panic("secret")
			}
			return nil
		}
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(5 * time.Second)
		wantString(t, "states", r.states(), "post1@page:sent")
		if strings.Contains(r.log.String(), "secret") {
			t.Error("the log contains the panic's value")
		}
	})
}

func TestStop(t *testing.T) {
	withSynctest(t, func(r *fixture) { // breaks off what hangs, and leaves it to be looked for
		r.page.wait = func(ctx context.Context, _ call) { <-ctx.Done() }
		r.page.answer = func(int, call) *alerts.SendResult { return outcome(alerts.Ambiguous) }
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		before := time.Now()
		if err := r.dispatcher.Stop(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > 4*time.Second {
			t.Errorf("Stop took %s", took)
		}
		wantString(t, "states", r.states(), "post1@page:uncertain")
	})
	withSynctest(t, func(r *fixture) { // before Start, and twice
		d, err := alerts.New(r.opts)
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
		advance(time.Minute)
		wantString(t, "attempts after Stop", r.page.String(), "")
	})
	withSynctest(t, func(r *fixture) { // a notifier that does not obey its context
		free := make(chan struct{})
		r.page.wait = func(context.Context, call) { <-free }
		r.start()
		r.put(delivery("i", 1, alerts.Post))
		advance(time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		before := time.Now()
		_ = r.dispatcher.Stop(ctx)
		if took := time.Since(before); took > 2*time.Second {
			t.Errorf("Stop took %s", took)
		}
		wantString(t, "states", r.states(), "post1@page:sending")
		close(free)
		synctest.Wait()
	})
}

func TestInvalidOptions(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*alerts.Options)
		want  string
	}{
		{"no outbox", func(o *alerts.Options) { o.Outbox = nil }, "outbox"},
		{"no log", func(o *alerts.Options) { o.Log = nil }, "log"},
		{"a channel without a sender", func(o *alerts.Options) { o.Routes.Drills = "drills" }, `"drills"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newFixture(t, outboxtest.NewMemory())
			tt.spoil(&r.opts)
			if _, err := alerts.New(r.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %s", err, tt.want)
			}
		})
	}
}
