package demo

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"headgate/internal/loadgen"
)

// unset stands for a time that has not been reached.
const unset time.Duration = -1

// deadlineReason is the reason of tasks that left the queue unserved.
const deadlineReason = "deadline_passed"

// task is what was observed of one arrival on one side. Times are scenario time.
type task struct {
	intended   time.Duration
	sent       time.Duration // by the generator
	started    time.Duration // observed by the endpoint
	ended      time.Duration // observed by the generator
	outcome    loadgen.Outcome
	reason     string        // of a refusal
	retryAfter time.Duration // of a refusal, on the wall clock; 0 without
}

// taskStatus is the state of a task.
type taskStatus int

const (
	notSent        taskStatus = iota // not sent
	pending                          // sent, not ended
	refused                          // at once, before the queue
	deadlinePassed                   // admitted, and left the queue unserved when its deadline had passed
	inTime                           // answered within the SLO
	late                             // answered after that
	failed                           // admitted, and answered with an error
	cancelled                        // open when the demo was stopped
)

// status derives the state from times and outcome. The SLO counts from the intended
// arrival, so that a slow generator does not hide late answers.
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

// answered reports whether the task was admitted and has ended.
func (s taskStatus) answered() bool {
	return s == inTime || s == late || s == failed || s == deadlinePassed
}

func (t task) refusalReason() string { return cmp.Or(t.reason, "none") }

// overSLO reports whether an admitted task is over the SLO, ended or not. One that left
// the queue unserved always is.
func (t task) overSLO(slo, now time.Duration) bool {
	if t.ended != unset {
		now = t.ended
	}
	return t.status(slo) == deadlinePassed || now-t.intended > slo
}

// tracker records what is observed of the tasks of one side. It is safe for
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

// update ignores unknown indexes: the endpoint accepts calls of other clients too.
func (t *tracker) update(index int, change func(*task, time.Duration)) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if index >= 0 && index < len(t.tasks) {
		change(&t.tasks[index], now)
	}
}

// snapshot returns a copy of the tasks.
func (t *tracker) snapshot() []task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]task(nil), t.tasks...)
}

// Step is one change of the number of queued tasks.
type Step struct {
	At    time.Duration // scenario time
	Depth int           // from At on
}

// waitInterval returns from when to when a task was queued; false for one that never
// was. Tasks that were refused at once were never queued.
func (t task) waitInterval(slo, now time.Duration) (from, to time.Duration, ok bool) {
	switch f := t.status(slo); {
	case f == notSent || f == refused:
		return 0, 0, false
	case t.started != unset:
		to = t.started
	case t.ended != unset:
		to = t.ended
	default:
		to = now
	}
	return t.sent, to, to > t.sent
}

// queueDepth returns the number of queued tasks over time, up to now.
func queueDepth(tasks []task, slo, now time.Duration) []Step {
	var changes []Step
	for _, t := range tasks {
		if from, to, ok := t.waitInterval(slo, now); ok {
			changes = append(changes, Step{from, 1}, Step{to, -1})
		}
	}
	// Of changes at the same time, departures come first, so that a slot that changes
	// hands does not count twice.
	slices.SortFunc(changes, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Depth, b.Depth))
	})
	steps := []Step{{}}
	n := 0
	for _, c := range changes {
		if c.At >= now { // the end of a wait that goes on
			break
		}
		n += c.Depth
		if last := &steps[len(steps)-1]; last.At == c.At {
			last.Depth = n
			continue
		}
		steps = append(steps, Step{c.At, n})
	}
	return steps
}

// maxDepth returns the highest depth.
func maxDepth(steps []Step) int {
	most := 0
	for _, s := range steps {
		most = max(most, s.Depth)
	}
	return most
}

// firstEmpty returns the first time at or after from at which the queue is empty; false
// if there is none before end.
func firstEmpty(steps []Step, from, end time.Duration) (time.Duration, bool) {
	if from > end {
		return 0, false
	}
	for i, s := range steps {
		last := i == len(steps)-1
		if s.Depth == 0 && (last || steps[i+1].At > from) {
			return max(s.At, from), true
		}
	}
	return 0, false
}

// bucketMax returns the highest depth in each of n equal parts of the time from 0
// to span.
func bucketMax(steps []Step, n int, span time.Duration) []int {
	out := make([]int, n)
	if n == 0 || span <= 0 {
		return out
	}
	column := func(at time.Duration) int {
		return min(int(float64(at)/float64(span)*float64(n)), n-1)
	}
	for i, s := range steps {
		if s.At > span {
			break
		}
		end := column(s.At)
		if i+1 < len(steps) {
			end = column(min(steps[i+1].At, span))
		}
		for c := column(s.At); c <= end; c++ {
			out[c] = max(out[c], s.Depth)
		}
	}
	return out
}
