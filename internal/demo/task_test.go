package demo

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

const slo = 60 * time.Second

func TestDepthFollowsTheTasks(t *testing.T) {
	expired := refusedTask(3, deadlineReason)
	expired.ended = sec(63)
	tasks := []task{
		answeredTask(0, 0, 5),       // never waited
		answeredTask(1, 5, 9),       // waited from 1 to 5
		answeredTask(2, 5, 9),       // from 2 to 5
		refusedTask(2.5, "queue_x"), // no part of the queue
		expired,                     // from 3 to 63
		waitingTask(70),             // from 70
		{intended: sec(80), sent: unset, started: unset, ended: unset},
	}
	got := queueDepth(tasks, slo, sec(75))
	want := []Step{{0, 0}, {sec(1), 1}, {sec(2), 2}, {sec(3), 3}, {sec(5), 1}, {sec(63), 0}, {sec(70), 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("depth (-want +got):\n%s", diff)
	}
	if got := maxDepth(got); got != 3 {
		t.Errorf("worst %d, want 3", got)
	}
}

func TestAPlaceThatChangesHandsCountsOnce(t *testing.T) {
	steps := queueDepth([]task{answeredTask(0, 5, 9), answeredTask(5, 8, 9)}, slo, sec(10))
	if got := maxDepth(steps); got != 1 {
		t.Errorf("worst %d in %v, want 1", got, steps)
	}
}

// Depth agrees with counting, task by task, at any time.
func TestDepthAgreesWithCounting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var tasks []task
		for range r.IntN(40) {
			at := float64(r.IntN(100))
			switch r.IntN(4) {
			case 0:
				tasks = append(tasks, refusedTask(at, "queue_age"))
			case 1:
				tasks = append(tasks, waitingTask(at))
			default:
				start := at + float64(r.IntN(50))
				tasks = append(tasks, answeredTask(at, start, start+float64(r.IntN(90))))
			}
		}
		now := sec(float64(100 + r.IntN(50)))
		seen := until(tasks, now)
		steps := queueDepth(seen, slo, now)
		for at := time.Duration(0); at < now; at += time.Second / 2 {
			if got, want := depthAt(steps, at), countWaiting(seen, at, now); got != want {
				t.Fatalf("depth at %v is %d, want %d\n%+v", at, got, want, seen)
			}
		}
	}
}

func depthAt(steps []Step, at time.Duration) int {
	n := 0
	for _, s := range steps {
		if s.At <= at {
			n = s.Depth
		}
	}
	return n
}

func countWaiting(tasks []task, at, now time.Duration) int {
	n := 0
	for _, t := range tasks {
		if f := t.status(slo); f == notSent || f == refused {
			continue
		}
		end := t.started
		if end == unset {
			end = now
		}
		if t.sent <= at && at < end {
			n++
		}
	}
	return n
}

func TestEmptyFrom(t *testing.T) {
	steps := []Step{{0, 0}, {sec(10), 2}, {sec(20), 0}, {sec(30), 1}, {sec(40), 0}}
	for _, c := range []struct {
		from, end, want float64
		ok              bool
	}{
		{5, 50, 5, true},   // empty already
		{10, 50, 20, true}, // from the moment it fills
		{15, 50, 20, true},
		{25, 50, 25, true},
		{30, 50, 40, true},
		{45, 50, 45, true},
		{60, 50, 0, false}, // the demo ended before
	} {
		got, ok := firstEmpty(steps, sec(c.from), sec(c.end))
		if got != sec(c.want) || ok != c.ok {
			t.Errorf("from %v to %v: %v, %v; want %v s, %v", c.from, c.end, got, ok, c.want, c.ok)
		}
	}
	if _, ok := firstEmpty([]Step{{0, 0}, {sec(1), 1}}, sec(2), sec(9)); ok {
		t.Error("a queue that never empties is said to be empty")
	}
}

func TestColumnsKeepThePeaks(t *testing.T) {
	steps := []Step{{0, 0}, {sec(12), 7}, {sec(12.1), 1}, {sec(90), 0}, {sec(300), 9}}
	got := bucketMax(steps, 10, sec(100))
	want := []int{0, 7, 1, 1, 1, 1, 1, 1, 1, 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	for _, n := range []int{0, 1, 3} {
		if got := bucketMax(steps, n, 0); len(got) != n {
			t.Errorf("%d columns of no time: %v", n, got)
		}
	}
}
