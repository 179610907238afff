package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

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
		b.queue(8, control.ModeRequest{Action: control.Rollback, Pool: "nobody"})
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
