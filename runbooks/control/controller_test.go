package control_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

var rollback = control.ModeRequest{Action: control.Rollback, Actor: "ann@host", Via: control.ViaAPI, Reason: "refuses too much"}

func TestRollbackAndRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a", "b")
		defer s.stop()
		for range 3 {
			s.gates["a"].Offer(time.Now(), admission.Task{})
		}
		r := s.mustDo(t, rollback)
		if len(r.Changes) != 2 || !r.Recorded {
			t.Fatalf("result %+v, want two recorded changes", r)
		}
		c := r.Changes[0]
		if c.Pool != "a" || c.Running != 1 || c.Queued != 2 || c.Actor != "ann@host" || c.Writer != "w1" || c.RestoreMode != admission.Enforce {
			t.Fatalf("change %+v", c)
		}
		s.wantMode(t, "a", admission.PassThrough)
		s.wantMode(t, "b", admission.PassThrough)
		if snap := s.gates["a"].Snapshot(time.Now()); snap.InFlight != 1 || snap.Depth != 2 {
			t.Fatalf("running and queued were touched: %+v", snap)
		}
		s.mustDo(t, control.ModeRequest{Action: control.Restore, Pool: "a"})
		s.wantMode(t, "a", admission.Enforce)
		s.wantMode(t, "b", admission.PassThrough)
		s.journal.wantActions(t, "a first enforce>enforce", "b first enforce>enforce",
			"a rollback enforce>passthrough", "b rollback enforce>passthrough", "a restore passthrough>enforce")
	})
}

// TestRestoreReturnsToTheModeBefore: also after two rollbacks, and step by
// step from pass-through through observe to enforce.
func TestRestoreReturnsToTheModeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		defer s.stop()
		s.mustDo(t, control.ModeRequest{Action: control.SetMode, Mode: admission.Observe})
		s.mustDo(t, rollback)
		if again := s.mustDo(t, rollback).Changes[0]; again.ID != "" || again.From != admission.PassThrough || again.RestoreMode != admission.Observe {
			t.Fatalf("second rollback: %+v, want nothing done", again)
		}
		restore := control.ModeRequest{Action: control.Restore}
		for _, want := range []admission.Mode{admission.Observe, admission.Enforce, admission.Enforce} {
			s.mustDo(t, restore)
			s.wantMode(t, "a", want)
		}
		s.journal.wantActions(t, "a first enforce>enforce", "a mode enforce>observe", "a rollback observe>passthrough",
			"a restore passthrough>observe", "a restore observe>enforce")
	})
}

func TestModeRequestsAreAtomic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a", "b")
		defer s.stop()
		s.mustDo(t, control.ModeRequest{Action: control.SetMode, Mode: admission.Observe, Pool: "b", Actor: "bob"})
		o, enforce := rollback, admission.Enforce
		o.Expected = &enforce
		_, err := s.Do(t.Context(), time.Now(), o)
		if !errors.Is(err, control.ErrModeMismatch) || !strings.Contains(err.Error(), `"b" is in observe`) || !strings.Contains(err.Error(), "by bob") {
			t.Fatalf("error %v, want it to name pool, mode and who set it", err)
		}
		s.wantMode(t, "a", admission.Enforce)
		o.Pool, o.Expected = "c", nil
		if _, err := s.Do(t.Context(), time.Now(), o); !errors.Is(err, control.ErrNoPool) {
			t.Fatalf("error %v, want ErrNoPool", err)
		}
	})
}

// TestConcurrentModeRequests: of two who expect the same mode, one wins.
func TestConcurrentModeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		defer s.stop()
		o, enforce := rollback, admission.Enforce
		o.Expected = &enforce
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := s.Do(t.Context(), time.Now(), o)
				errs <- err
			}()
		}
		first, second := <-errs, <-errs
		if (first == nil) == (second == nil) {
			t.Fatalf("errors %v and %v, want exactly one", first, second)
		}
		s.journal.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
	})
}

func TestDropOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		defer s.stop()
		s.mustDo(t, rollback)
		for range 3 {
			s.gates["a"].Offer(time.Now(), admission.Task{Deadline: time.Now().Add(15 * time.Second)})
		}
		c := s.mustDo(t, control.ModeRequest{Action: control.Restore, DropOverdue: true}).Changes[0]
		if c.Queued != 2 || c.Dropped != 2 {
			t.Fatalf("of 2 waiting with 15 s left behind 10 s of work, dropped %+v", c)
		}
	})
}

func TestModeSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeJournal()
		s := newControllerFixture(t, b, "a")
		s.mustDo(t, rollback)
		s.stop()
		again := newControllerFixture(t, b, "a")
		defer again.stop()
		again.wantMode(t, "a", admission.PassThrough)
		if st, _ := again.State("a"); st.Actor != "ann@host" || st.Reason != "refuses too much" || st.RestoreMode != admission.Enforce {
			t.Fatalf("standing after a restart: %+v", st)
		}
		b.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
	})
}

func TestReaddedPoolKeepsItsMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a", "b")
		defer s.stop()
		s.mustDo(t, rollback)
		s.Remove("a")
		if _, ok := s.State("a"); ok {
			t.Fatal("a removed pool still stands")
		}
		s.mustDo(t, control.ModeRequest{Action: control.Restore})
		s.gates["a"] = newGate(t)
		s.Add(time.Now(), "a", s.gates["a"])
		s.wantMode(t, "a", admission.PassThrough)
		s.wantMode(t, "b", admission.Enforce)
	})
}

// TestRollbackNeedsNoJournal: whatever is wrong with the record, the rollback
// stands, its giver learns that a restart would forget it, and it is recorded
// once that is possible.
func TestRollbackNeedsNoJournal(t *testing.T) {
	for name, breakIt := range map[string]func(*fakeJournal){
		"failing": func(b *fakeJournal) { b.setFailure(errDiskFull, false) },
		"stuck":   func(b *fakeJournal) { b.setFailure(nil, true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newControllerFixture(t, newFakeJournal(), "a")
				defer s.stop()
				breakIt(s.journal)
				began := time.Now()
				r := s.mustDo(t, rollback)
				if r.Recorded || time.Since(began) > 3*time.Second {
					t.Fatalf("recorded %v after %s, want an unrecorded answer within 3 s", r.Recorded, time.Since(began))
				}
				s.wantMode(t, "a", admission.PassThrough)
				time.Sleep(30 * time.Second)
				s.journal.setFailure(nil, false)
				time.Sleep(15 * time.Second)
				synctest.Wait()
				s.journal.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
				if n := s.count(t, "headgate_journal_errors_total"); n == 0 {
					t.Fatal("no failure was counted")
				}
			})
		})
	}
}

func TestUnrecordedChangesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		defer s.stop()
		s.journal.setFailure(errDiskFull, false)
		s.mustDo(t, rollback)
		s.mustDo(t, control.ModeRequest{Action: control.Restore})
		s.mustDo(t, rollback)
		s.journal.setFailure(nil, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.journal.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough",
			"a restore passthrough>enforce", "a rollback enforce>passthrough")
	})
}

// TestRecordRetryBacksOff: not in a busy loop.
func TestRecordRetryBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		defer s.stop()
		s.journal.setFailure(errDiskFull, false)
		s.mustDo(t, rollback)
		before := s.journal.attemptCount()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.journal.attemptCount() - before; n < 5 || n > 30 {
			t.Fatalf("%d attempts in a minute, want 5 to 30", n)
		}
	})
}

func TestStopRecordsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		s.journal.setFailure(errDiskFull, false)
		s.mustDo(t, rollback)
		s.journal.setFailure(nil, false)
		s.stop()
		s.journal.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
	})
}

func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		s.journal.setFailure(nil, true)
		s.mustDo(t, rollback)
		began := time.Now()
		s.stop()
		if d := time.Since(began); d > 10*time.Second {
			t.Fatalf("stop took %s with a stuck journal", d)
		}
	})
}

func TestRequestsAreCarriedOutOnceByNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeJournal()
		b.queue(1, rollback)
		s := newControllerFixture(t, b, "a")
		s.wantMode(t, "a", admission.PassThrough) // left while nothing ran
		b.queue(2, control.ModeRequest{Action: control.Restore, Actor: "bob@host"})
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.Enforce)
		s.mustDo(t, rollback)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.PassThrough) // request 2 is not compared with the state
		s.stop()
		again := newControllerFixture(t, b, "a")
		defer again.stop()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		again.wantMode(t, "a", admission.PassThrough)
		b.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough",
			"a restore passthrough>enforce", "a rollback enforce>passthrough")
		if c := b.changes[2]; c.RequestNumber != 2 || c.Via != control.ViaRequest || c.Actor != "bob@host" {
			t.Fatalf("change by a request: %+v", c)
		}
	})
}

// TestInvalidQueuedRequestsAreSkipped: they must not come again, nor hold
// up those behind them.
func TestInvalidQueuedRequestsAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeJournal()
		s := newControllerFixture(t, b, "a")
		b.queue(7, control.ModeRequest{})
		b.queue(8, control.ModeRequest{Action: control.Rollback, Pool: "unknown"})
		b.queue(9, rollback)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.PassThrough)
		s.stop()
		if b.seen != 9 {
			t.Fatalf("dealt with up to %d, want 9", b.seen)
		}
	})
}

func TestUnreadableRequestsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newControllerFixture(t, newFakeJournal(), "a")
		defer s.stop()
		s.journal.setFailure(errDiskFull, false)
		time.Sleep(5 * time.Second)
		s.journal.setFailure(nil, false)
		s.journal.queue(1, rollback)
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.PassThrough)
	})
}
