package demo

import (
	"sync"
	"testing"
	"time"

	"headgate/internal/loadgen"
)

func TestFate(t *testing.T) {
	const slo = 60 * time.Second
	expired := refusedTask(0, deadlineReason)
	expired.ended = sec(60)
	stopped := waitingTask(5)
	stopped.ended, stopped.outcome = sec(9), loadgen.Cancelled
	broken := answeredTask(0, 1, 2)
	broken.outcome = loadgen.Failed
	torn := answeredTask(0, 1, 2)
	torn.outcome = loadgen.Truncated
	for _, c := range []struct {
		name string
		task task
		want taskStatus
	}{
		{"not sent", task{sent: unset, started: unset, ended: unset}, notSent},
		{"waits", waitingTask(3), pending},
		{"runs", task{sent: 0, started: 1, ended: unset}, pending},
		{"refused", refusedTask(3, "queue_age"), refused},
		{"refused without a reason", refusedTask(3, ""), refused},
		{"deadline passed", expired, deadlinePassed},
		{"exactly at the SLO", answeredTask(10, 40, 70), inTime},
		{"just over it", answeredTask(10, 40, 70.001), late},
		{"error", broken, failed},
		{"truncated", torn, failed},
		{"cut off", stopped, cancelled},
	} {
		if got := c.task.status(slo); got != c.want {
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
	seen := tr.snapshot()
	if a := seen[0]; a.intended != sec(1) || a.sent < sec(10) || a.started < a.sent || a.ended != unset {
		t.Errorf("task 0: %+v, want sent and then started, after 10 s", a)
	}
	if b := seen[1]; b.sent != sec(3) || b.ended != sec(3) || b.reason != "queue_age" || b.retryAfter != 4*time.Second {
		t.Errorf("task 1: %+v, want sent and ended at 3 s, with reason and retry", b)
	}
	seen[0].ended = 5
	if tr.snapshot()[0].ended != unset {
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
	if got := tr.snapshot()[0]; got.status(time.Second) != notSent {
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
			tr.snapshot()
			tr.ended(loadgen.Result{Index: i, End: tr.now(), Outcome: loadgen.OK})
		})
	}
	wg.Wait()
	for i, task := range tr.snapshot() {
		if task.status(time.Hour) != inTime {
			t.Fatalf("task %d: %+v, want answered in time", i, task)
		}
	}
}
