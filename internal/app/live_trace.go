package app

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"net/http"
	"slices"
	"sync"
	"time"

	"headgate/runbooks/drill"
)

// taskTrace follows production's tasks while a live drill runs: at the door, where
// their clients are, and on the way upstream. It is safe for concurrent use.
type taskTrace struct {
	clock      *scenarioClock
	pool       string
	singlePool bool // the pool is the only one: what never came to an endpoint is its too
	markedOnly bool // only marked tasks are looked at

	mu        sync.Mutex
	tasks     []*tracedTask
	truncated bool // there were more than can be judged
	calls     callTrace
}

// tracedTask is a drill.Task with times of the wall clock.
type tracedTask struct {
	drill.Task
	sent, ended time.Time
	pool        string // once a call was made; empty: none was
	marked      bool
	faulted     bool // by a fault
}

type tracedTaskKey struct{}

// taskFromContext returns the task that a call is for; nil for none.
func taskFromContext(ctx context.Context) *tracedTask {
	t, _ := ctx.Value(tracedTaskKey{}).(*tracedTask)
	return t
}

// add enters a task; nil when there are too many.
func (b *taskTrace) add(isMarked bool) *tracedTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tasks) >= drill.MaxTasks {
		b.truncated = true
		return nil
	}
	t := &tracedTask{sent: time.Now(), marked: isMarked}
	t.ID = len(b.tasks)
	b.tasks = append(b.tasks, t)
	return t
}

// serve serves a task of a client and sees what it is answered.
func (b *taskTrace) serve(h http.Handler, w http.ResponseWriter, r *http.Request, isMarked bool) {
	t := b.add(isMarked)
	if t == nil {
		h.ServeHTTP(w, r)
		return
	}
	heard := &recordingWriter{ResponseWriter: w, sum: fnv.New64a()}
	whole := false
	defer func() { b.finish(t, heard, whole, r.Context().Err() != nil) }()
	h.ServeHTTP(heard, r.WithContext(context.WithValue(r.Context(), tracedTaskKey{}, t)))
	whole = true
}

// markFaulted notes that a fault has befallen a call of a task.
func (b *taskTrace) markFaulted(task int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[task].faulted = true
}

// finish says how a task ended for its client. One whose client has left says nothing,
// and neither does one that was wrong, or that the endpoint did not want.
func (b *taskTrace) finish(t *tracedTask, h *recordingWriter, whole, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.ended, t.Status, t.Bytes, t.Checksum = time.Now(), h.status, h.n, h.sum.Sum64()
	t.RetryAfter, t.Reason = h.Header().Get("Retry-After"), h.Header().Get("Headgate-Reason")
	switch {
	case left:
		t.Outcome = drill.Unsent
	case t.Reason != "":
		t.Outcome = drill.Refused
	case h.status >= 400 && h.status < 500 && !t.faulted:
		t.Outcome = drill.Unsent
	case h.status >= 200 && h.status < 300 && whole:
		t.Outcome = drill.Served
	case h.status >= 200 && h.status < 300:
		t.Outcome = drill.Broken
	default:
		t.Outcome = drill.Errored
	}
}

// recordingWriter is a client that is listened to.
type recordingWriter struct {
	http.ResponseWriter
	status int
	n      int64
	sum    hash.Hash64
}

// Unwrap lets http.ResponseController through.
func (h *recordingWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *recordingWriter) WriteHeader(status int) {
	if status >= 200 && h.status == 0 {
		h.status = status
	}
	h.ResponseWriter.WriteHeader(status)
}

func (h *recordingWriter) Write(p []byte) (int, error) {
	if h.status == 0 {
		h.status = http.StatusOK
	}
	n, err := h.ResponseWriter.Write(p)
	_, _ = h.sum.Write(p[:n]) // never fails
	h.n += int64(n)
	return n, err
}

// attribute notes that a call was made for a task, and says whether it is one of the
// pool that is looked at.
func (b *taskTrace) attribute(t *tracedTask, pool string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.pool = pool
	return pool == b.pool
}

// addTo fills in what is known, at a scenario time.
func (b *taskTrace) addTo(e *drill.Evidence) {
	b.mu.Lock()
	seen := make(map[int]bool)
	for _, t := range b.tasks {
		if t.pool != b.pool && !(t.pool == "" && b.singlePool) || b.markedOnly && !t.marked {
			continue
		}
		task := t.Task
		task.Sent, task.Ended = b.clock.at(t.sent), b.clock.at(t.ended)
		task.Due = task.Sent
		seen[task.ID] = true
		e.Tasks = append(e.Tasks, task)
		if task.Outcome != drill.Unsent {
			e.Planned++
		}
	}
	if b.truncated {
		e.StaleReason = "production has more tasks than can be judged"
	}
	b.mu.Unlock()
	e.Calls = slices.DeleteFunc(b.calls.snapshot(), func(c drill.Call) bool { return !seen[c.Task] })
}

// scopeViolations says how many calls were touched that should not have been: of tasks that
// are not marked, or more than the share. A share of few tasks is never exact.
func (l *liveTransports) scopeViolations(r drill.Run) drill.Reading {
	b := l.trace.Load()
	if b == nil {
		return drill.Reading{Reason: "nobody looks at production any more"}
	}
	calls := b.calls.snapshot()
	b.mu.Lock()
	defer b.mu.Unlock()
	touched, wrong := 0, 0
	for _, c := range calls {
		if c.Fault == "" {
			continue
		}
		touched++
		if r.Spec.Marked && !b.tasks[c.Task].marked {
			wrong++
		}
	}
	if most := int(r.Spec.Share*float64(len(calls))) + shareToleranceCalls; !r.Spec.Marked {
		wrong = max(0, touched-most)
	}
	return drill.Reading{
		Measured: true, Value: float64(wrong), Samples: len(calls), Source: "production's way upstream",
		Reason: fmt.Sprintf("%d of %d calls were touched, %d of them should not have been", touched, len(calls), wrong),
	}
}

// shareToleranceCalls is how far an even share may be off, in calls.
const shareToleranceCalls = 4
