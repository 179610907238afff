package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/internal/writebehind"
)

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// From a breach to the journal, and to everybody who wants to hear of it.
func TestEngineOpensAndResolves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		defer r.stop()
		r.signals.set(ruleKey, page)
		advance(11 * time.Second)
		all := []string{"1 opened warn", "2 escalated page"}
		same(t, "stepped", r.stepped.events(), all...)
		same(t, "recorded", r.recorded.events(), all...)
		same(t, "journal", r.journal.events(), all...)
		same(t, "unrecorded", r.unrecorded.events())
		if got := r.Incidents(); len(got) != 1 || got[0].Level != LevelPage {
			t.Errorf("incidents %+v", got)
		}
		if got := r.States(); len(got) != 2 || got[0].State.Phase != Firing || got[0].Value != page || got[1].Rule.Name != SignalMissing {
			t.Errorf("states %+v", got)
		}
		r.signals.set(ruleKey, low)
		advance(7 * time.Second)
		same(t, "journal", r.journal.events(), append(all, "3 recovering page", "4 resolved page")...)
	})
}

// All rules are evaluated once before anything is said: a breach that has been
// long enough already is said at once, and as a page.
func TestEngineStartsWithAnEvaluation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(o *Options) { o.Rules[0].Warn.For, o.Rules[0].Page.For = 0, 0 })
		r.signals.set(ruleKey, page)
		r.start()
		defer r.stop()
		same(t, "journal", r.journal.events(), "1 opened page")
	})
}

// A restart says nothing anew, and goes on where the record ends.
func TestEngineRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		r.signals.set(ruleKey, page)
		advance(20 * time.Second)
		for range 5 {
			r.stop()
			time.Sleep(time.Minute)
			r.Engine = r.build(nil)
			r.start()
			advance(20 * time.Second)
		}
		r.stop()
		same(t, "journal", r.journal.events(), "1 opened warn", "2 escalated page")
	})
}

// While the journal fails, pages go out from memory, once each, and everything
// is recorded later, in order.
func TestEngineJournalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		r.start()
		defer r.stop()
		r.signals.set(ruleKey, warn)
		advance(8 * time.Second)
		same(t, "unrecorded: a warning waits", r.unrecorded.events())
		r.signals.set(ruleKey, page)
		advance(10 * time.Second)
		same(t, "unrecorded", r.unrecorded.events())
		advance(2 * time.Second)
		same(t, "unrecorded", r.unrecorded.events(), "2 escalated page")
		advance(10 * time.Minute)
		r.signals.set(ruleKey, low)
		advance(10 * time.Second)
		same(t, "unrecorded", r.unrecorded.events(), "2 escalated page", "3 recovering page", "4 resolved page")
		same(t, "journal", r.journal.events())
		if r.metric("headgate_journal_errors_total", "save_incidents") < 100 {
			t.Errorf("%v errors counted in ten minutes", r.metric("headgate_journal_errors_total", "save_incidents"))
		}
		if got := r.metric("headgate_incident_events_unrecorded"); got != 4 {
			t.Errorf("%v events wait, want 4", got)
		}
		r.journal.fail(nil)
		advance(writebehind.DefaultMaxRetry)
		all := []string{"1 opened warn", "2 escalated page", "3 recovering page", "4 resolved page"}
		same(t, "journal", r.journal.events(), all...)
		same(t, "recorded", r.recorded.events(), all...)
		same(t, "unrecorded", r.unrecorded.events(), all[1:]...)
		if got := r.metric("headgate_incident_events_unrecorded"); got != 0 {
			t.Errorf("%v events wait, want none", got)
		}
		if n := strings.Count(r.log.String(), "cannot be recorded"); n != 1 {
			t.Errorf("said %d times that it cannot be recorded", n)
		}
	})
}

// A journal that hangs stops neither the evaluations nor the pages.
func TestEngineJournalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(o *Options) { o.Rules[0].Page.For = 5 * time.Second })
		r.journal.fail(func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() })
		r.start()
		r.signals.set(ruleKey, page)
		advance(6*time.Second + 2*r.o.Config.SaveTimeout)
		same(t, "unrecorded", r.unrecorded.events(), "1 opened page")
		if n := len(r.signals.evaluations()); n != 11 {
			t.Errorf("%d evaluations in ten seconds", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Stop(ctx); !errors.Is(err, ErrUnsaved) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v, want that something is not recorded", err)
		}
	})
}

// An attempt that has written and says that it has not is repeated, and changes
// nothing.
func TestEngineJournalUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		n := 0
		r.journal.fail(func(context.Context) (bool, error) {
			if n++; n%2 == 1 {
				return true, errDisk
			}
			return true, nil
		})
		r.start()
		r.signals.set(ruleKey, page)
		advance(60 * time.Second)
		r.stop()
		same(t, "journal", r.journal.events(), "1 opened warn", "2 escalated page")
	})
}

// What happened last is recorded when the engine stops.
func TestEngineStopRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		r.signals.set(ruleKey, page)
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		advance(11 * time.Second)
		r.journal.fail(nil)
		r.stop()
		same(t, "journal", r.journal.events(), "1 opened warn", "2 escalated page")
		r.stop() // again
		if err := r.Start(t.Context()); err == nil {
			t.Error("a stopped engine started")
		}
	})
}

// An evaluation that hangs makes values missing and stops nothing else: one hang
// over many evaluations is one trouble.
// Commands do not wait for an evaluation.
// An evaluation that panics is one that failed.
// A tick that is late is skipped, not caught up with, and counted.
// A wall clock that jumps by an hour is said once and changes nothing.
func TestEngineWallClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		r.start()
		r.signals.set(ruleKey, page)
		advance(12 * time.Second)
		r.stop()
		for _, jump := range []time.Duration{time.Hour, -time.Hour, 4 * time.Second} {
			r.log = &lockedBuffer{}
			r.Engine = r.build(nil)
			start := time.Now()
			r.wallClock = func() time.Time {
				if time.Since(start) >= 30*time.Second {
					return time.Now().Round(0).Add(jump)
				}
				return time.Now().Round(0)
			}
			r.start()
			advance(60 * time.Second)
			r.stop()
			want := 1
			if jump < wallJumpThreshold && jump > -wallJumpThreshold {
				want = 0
			}
			if n := strings.Count(r.log.String(), "wall clock jumped"); n != want {
				t.Errorf("a jump of %s: said %d times, want %d", jump, n, want)
			}
		}
		same(t, "journal", r.journal.events(), "1 opened warn", "2 escalated page")
	})
}

// Slow rules are asked for every half minute, not all at the same time, and their
// values hold in between.
// A slow rule that gets no answer is missing, and asked again at once.
func TestEngineCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		ctx := t.Context()
		if _, err := r.Ack(ctx, "x", "ann", 0); !errors.Is(err, ErrNotRunning) {
			t.Errorf("before the start: %v", err)
		}
		r.start()
		r.signals.set(ruleKey, page)
		advance(12 * time.Second)
		id := r.Incidents()[0].ID
		if a, err := r.Ack(ctx, id, "ann", time.Hour); err != nil || !a.Applied {
			t.Errorf("ack %+v, %v", a, err)
		}
		if a, err := r.Ack(ctx, id, "bob", time.Hour); err != nil || a.Applied || a.By != "ann" {
			t.Errorf("second ack %+v, %v", a, err)
		}
		if _, err := r.Ack(ctx, "x", "ann", 0); !errors.Is(err, ErrNoIncident) {
			t.Errorf("of an unknown incident: %v", err)
		}
		_, err := r.Silence(ctx, Silence{Rule: "agee", By: "ann", Until: time.Now().Add(time.Hour)})
		if !errors.Is(err, ErrNoRule) || !strings.Contains(err.Error(), `"agee": no such rule; there are age, signal_missing`) {
			t.Errorf("of an unknown rule: %v", err)
		}
		s, err := r.Silence(ctx, Silence{Rule: "age", By: "ann", Until: time.Now().Add(time.Hour)})
		if err != nil || !slices.Equal(r.Silences(), []Silence{s.Silence}) {
			t.Errorf("silence %+v, %v, now %+v", s, err, r.Silences())
		}
		if _, err := r.Unsilence(ctx, s.Silence.ID, "bob"); err != nil || len(r.Silences()) != 0 {
			t.Errorf("unsilence: %v, now %+v", err, r.Silences())
		}
		if _, err := r.Unsilence(ctx, s.Silence.ID, "bob"); !errors.Is(err, ErrNoSilence) {
			t.Errorf("unsilence again: %v", err)
		}
		if err := r.Reload(ctx, []Rule{{Name: "x"}}); err == nil {
			t.Error("bad rules were taken")
		}
		if err := r.Reload(ctx, nil); err != nil {
			t.Error(err)
		}
		advance(time.Second)
		r.stop()
		same(t, "journal", r.journal.events(), "1 opened warn", "2 escalated page", "3 acknowledged page", "4 silence_ended page", "5 resolved page")
		if _, err := r.Ack(ctx, id, "ann", 0); !errors.Is(err, ErrNotRunning) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestEngineStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		r.journal.load = errDisk
		if err := r.Start(t.Context()); !errors.Is(err, errDisk) || r.metric("headgate_journal_errors_total", "load_incidents") != 1 {
			t.Errorf("start: %v", err)
		}
		r.journal.load = nil
		r.start()
		if err := r.Start(t.Context()); err == nil {
			t.Error("it started twice")
		}
		r.stop()
		r = newFixture(t, nil)
		r.stop() // before it was started
	})
}

// Stop does not wait for an evaluation for longer than its context allows.
func TestEngineStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		back := make(chan struct{})
		r.signals.onQuery(func(context.Context) { <-back })
		r.start()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := r.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "evaluations") {
			t.Errorf("stop: %v", err)
		}
		if _, err := r.Ack(t.Context(), "x", "ann", 0); !errors.Is(err, ErrNotRunning) {
			t.Errorf("a command meanwhile: %v", err)
		}
		close(back)
		<-r.Engine.loop.Done()
	})
}

func TestNewRefuses(t *testing.T) {
	tests := map[string]func(*Options){
		"no signals": func(o *Options) { o.Signals = nil },
		"no journal": func(o *Options) { o.Journal = nil },
		"no log":     func(o *Options) { o.Log = nil },
		"no metrics": func(o *Options) { o.Metrics = nil },
		"bad rules":  func(o *Options) { o.Rules = []Rule{{}} },
		"bad times":  func(o *Options) { o.Config.Interval = 0 },
	}
	for name, edit := range tests {
		o := newFixture(t, nil).o
		edit(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: it was made", name)
		}
	}
}
