package demo

import (
	"sync"
	"testing"
	"time"

	"headgate/internal/loadgen"
)

func TestFate(t *testing.T) {
	const slo = 60 * time.Second
	expired := turnedAway(0, gaveUpReason)
	expired.ended = sec(60)
	stopped := waiting(5)
	stopped.ended, stopped.outcome = sec(9), loadgen.Cancelled
	broken := answered(0, 1, 2)
	broken.outcome = loadgen.Failed
	torn := answered(0, 1, 2)
	torn.outcome = loadgen.Truncated
	for _, c := range []struct {
		name string
		task task
		want fate
	}{
		{"not sent", task{sent: unseen, started: unseen, ended: unseen}, unborn},
		{"waits", waiting(3), open},
		{"runs", task{sent: 0, started: 1, ended: unseen}, open},
		{"refused", turnedAway(3, "queue_age"), refused},
		{"refused without a reason", turnedAway(3, ""), refused},
		{"deadline passed", expired, gaveUp},
		{"exactly at the SLO", answered(10, 40, 70), inTime},
		{"just over it", answered(10, 40, 70.001), late},
		{"error", broken, failed},
		{"truncated", torn, failed},
		{"cut off", stopped, cut},
	} {
		if got := c.task.fate(slo); got != c.want {
			t.Errorf("%s: fate %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTrackerNotesWhatItSees(t *testing.T) {
	tr := newTracker(1000, loadgen.Arrivals{{At: sec(1)}, {At: sec(2)}})
	tr.start = time.Now().Add(-10 * time.Millisecond) // 10 s ago in the scenario
	tr.sent(0)
	tr.started(0)
	tr.ended(loadgen.Result{Index: 1, End: sec(3), Outcome: loadgen.Refused, Reason: "queue_age",
		RetryAfter: loadgen.RetryAfter{OK: true, Delay: 4 * time.Second}})
	seen := tr.seen()
	if a := seen[0]; a.intended != sec(1) || a.sent < sec(10) || a.started < a.sent || a.ended != unseen {
		t.Errorf("task 0: %+v, want sent and then started, after 10 s", a)
	}
	if b := seen[1]; b.sent != sec(3) || b.ended != sec(3) || b.reason != "queue_age" || b.retry != 4*time.Second {
		t.Errorf("task 1: %+v, want sent and ended at 3 s, with reason and retry", b)
	}
	seen[0].ended = 5
	if tr.seen()[0].ended != unseen {
		t.Error("seen returns the tracker's own slice")
	}
}

func TestTrackerIgnoresStrangers(t *testing.T) {
	tr := newTracker(1, loadgen.Arrivals{{}})
	for _, i := range []int{-1, 1, 1 << 40} {
		tr.sent(i)
		tr.started(i)
		tr.ended(loadgen.Result{Index: i, Outcome: loadgen.OK})
	}
	if got := tr.seen()[0]; got.fate(time.Second) != unborn {
		t.Errorf("a stranger's call changed a task: %+v", got)
	}
}

func TestTrackerIsSafeForManyGoroutines(t *testing.T) {
	const n = 200
	tr := newTracker(1, make(loadgen.Arrivals, n))
	tr.start = time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			tr.sent(i)
			tr.started(i)
			tr.seen()
			tr.ended(loadgen.Result{Index: i, End: tr.now(), Outcome: loadgen.OK})
		})
	}
	wg.Wait()
	for i, task := range tr.seen() {
		if task.fate(time.Hour) != inTime {
			t.Fatalf("task %d: %+v, want answered in time", i, task)
		}
	}
}
