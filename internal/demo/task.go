package demo

import (
	"sync"
	"time"

	"headgate/internal/loadgen"
)

// unset stands for a time that has not come.
const unset time.Duration = -1

// deadlineReason is the reason of tasks that were let in and then waited too long.
const deadlineReason = "deadline_passed"

// task is what was seen of one arrival on one side. Times are scenario time.
type task struct {
	intended   time.Duration
	sent       time.Duration // by the generator
	started    time.Duration // seen by the endpoint
	ended      time.Duration // seen by the generator
	outcome    loadgen.Outcome
	reason     string        // of a refusal
	retryAfter time.Duration // of a refusal, on the wall clock; 0 without
}

// taskStatus is what has become of a task.
type taskStatus int

const (
	notSent        taskStatus = iota // not sent
	pending                          // sent, not ended
	refused                          // turned away at once
	deadlinePassed                   // let in, and turned away when its deadline had passed
	inTime                           // answered within the SLO
	late                             // answered after it
	failed                           // let in, and not answered as it should be
	cancelled                        // open when the demo was stopped
)

func (t task) status(slo time.Duration) taskStatus {
	switch {
	case t.sent == unset:
		return notSent
	case t.ended == unset:
		return pending
	}
	switch t.outcome {
	case loadgen.Refused:
		if t.reason == deadlineReason {
			return deadlinePassed
		}
		return refused
	case loadgen.OK:
		if t.ended-t.intended > slo {
			return late
		}
		return inTime
	case loadgen.Cancelled, loadgen.Dropped:
		return cancelled
	}
	return failed
}

// tracker gathers what is seen of the tasks of one side. It is safe for
// concurrent use.
type tracker struct {
	start time.Time
	speed float64

	mu    sync.Mutex
	tasks []task
}

func newTracker(speed float64, arrivals loadgen.Arrivals) *tracker {
	t := &tracker{speed: speed, tasks: make([]task, len(arrivals))}
	for i, a := range arrivals {
		t.tasks[i] = task{intended: a.At, sent: unset, started: unset, ended: unset}
	}
	return t
}

// now is the scenario time.
func (t *tracker) now() time.Duration {
	return time.Duration(float64(time.Since(t.start)) * t.speed)
}

func (t *tracker) sent(index int) {
	t.update(index, func(task *task, now time.Duration) { task.sent = now })
}

func (t *tracker) started(index int) {
	t.update(index, func(task *task, now time.Duration) { task.started = now })
}

func (t *tracker) ended(r loadgen.Result) {
	t.update(r.Index, func(task *task, _ time.Duration) {
		// A task that was never put on the wire is sent and ended at once.
		if task.sent == unset {
			task.sent = r.End
		}
		task.ended, task.outcome, task.reason = r.End, r.Outcome, r.Reason
		if r.RetryAfter.OK {
			task.retryAfter = r.RetryAfter.Delay
		}
	})
}

// update ignores an index that is not one of ours: the endpoint takes calls from
// everybody.
func (t *tracker) update(index int, change func(*task, time.Duration)) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if index >= 0 && index < len(t.tasks) {
		change(&t.tasks[index], now)
	}
}

// snapshot returns a copy of what has been seen.
func (t *tracker) snapshot() []task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]task(nil), t.tasks...)
}
