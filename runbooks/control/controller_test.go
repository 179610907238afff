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

// TestRestoreReturnsToTheModeBefore: also when somebody rolls back twice, and
// step by step from pass-through over observe to enforce.
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
