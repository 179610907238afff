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
	for name, breakIt := range map[string]func(*book){
		"failing": func(b *book) { b.set(errDiskFull, false) },
		"stuck":   func(b *book) { b.set(nil, true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, newBook(), "a")
				defer s.stop()
				breakIt(s.book)
				began := time.Now()
				r := s.order(t, rollback)
				if r.Recorded || time.Since(began) > 3*time.Second {
					t.Fatalf("recorded %v after %s, want an unrecorded answer within 3 s", r.Recorded, time.Since(began))
				}
				s.wantMode(t, "a", admission.PassThrough)
				time.Sleep(30 * time.Second)
				s.book.set(nil, false)
				time.Sleep(15 * time.Second)
				synctest.Wait()
				s.book.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
				if n := s.count(t, "headgate_journal_errors_total"); n == 0 {
					t.Fatal("no failure was counted")
				}
			})
		})
	}
}

func TestUnrecordedChangesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newBook(), "a")
		defer s.stop()
		s.book.set(errDiskFull, false)
		s.order(t, rollback)
		s.order(t, control.Order{Action: control.Restore})
		s.order(t, rollback)
		s.book.set(nil, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.book.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough",
			"a restore passthrough>enforce", "a rollback enforce>passthrough")
	})
}

// TestAFailedRecordIsTriedAgainWithPatience: not in a busy loop.
func TestAFailedRecordIsTriedAgainWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newBook(), "a")
		defer s.stop()
		s.book.set(errDiskFull, false)
		s.order(t, rollback)
		before := s.book.tries()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.book.tries() - before; n < 5 || n > 30 {
			t.Fatalf("%d attempts in a minute, want 5 to 30", n)
		}
	})
}

func TestStopRecordsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newBook(), "a")
		s.book.set(errDiskFull, false)
		s.order(t, rollback)
		s.book.set(nil, false)
		s.stop()
		s.book.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
	})
}

func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newBook(), "a")
		s.book.set(nil, true)
		s.order(t, rollback)
		began := time.Now()
		s.stop()
		if d := time.Since(began); d > 10*time.Second {
			t.Fatalf("stop took %s with a stuck journal", d)
		}
	})
}

func TestRequestsAreCarriedOutOnceByNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		b.leave(1, rollback)
		s := start(t, b, "a")
		s.wantMode(t, "a", admission.PassThrough) // left while nothing ran
		b.leave(2, control.Order{Action: control.Restore, Actor: "bob@host"})
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.Enforce)
		s.order(t, rollback)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.PassThrough) // request 2 is not compared with the state
		s.stop()
		again := start(t, b, "a")
		defer again.stop()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		again.wantMode(t, "a", admission.PassThrough)
		b.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough",
			"a restore passthrough>enforce", "a rollback enforce>passthrough")
		if c := b.changes[2]; c.Request != 2 || c.Via != control.ViaRequest || c.Actor != "bob@host" {
			t.Fatalf("change by a request: %+v", c)
		}
	})
}

// TestRequestsThatMakeNoSenseAreDealtWith: they must not come again, nor hold
// up those behind them.
func TestRequestsThatMakeNoSenseAreDealtWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		s := start(t, b, "a")
		b.leave(7, control.Order{})
		b.leave(8, control.Order{Action: control.Rollback, Pool: "nobody"})
		b.leave(9, rollback)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.PassThrough)
		s.stop()
		if b.seen != 9 {
			t.Fatalf("dealt with up to %d, want 9", b.seen)
		}
	})
}

func TestUnreadableRequestsStopNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newBook(), "a")
		defer s.stop()
		s.book.set(errDiskFull, false)
		time.Sleep(5 * time.Second)
		s.book.set(nil, false)
		s.book.leave(1, rollback)
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantMode(t, "a", admission.PassThrough)
	})
}
