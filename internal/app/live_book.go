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

// liveBook follows production's tasks while a live drill runs: at the door, where
// their clients are, and on the way upstream. It is safe for concurrent use.
type liveBook struct {
	clock *playClock
	pool  string
	only  bool // the pool is the only one: what never came to an endpoint is its too
	mark  bool // only marked tasks are looked at

	mu    sync.Mutex
	tasks []*liveTask
	full  bool // there were more than can be judged
	calls callBook
}

// liveTask is a drill.Task with times of the wall clock.
type liveTask struct {
	drill.Task
	sent, ended time.Time
	pool        string // once a call was made; empty: none was
	marked      bool
	struck      bool // by a fault
}

type liveKey struct{}

// taskOf returns the task that a call is for; nil for none.
func taskOf(ctx context.Context) *liveTask {
	t, _ := ctx.Value(liveKey{}).(*liveTask)
	return t
}

// begin enters a task; nil when there are too many.
func (b *liveBook) begin(isMarked bool) *liveTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tasks) >= drill.MaxTasks {
		b.full = true
		return nil
	}
	t := &liveTask{sent: time.Now(), marked: isMarked}
	t.ID = len(b.tasks)
	b.tasks = append(b.tasks, t)
	return t
}

// serve serves a task of a client and sees what it is answered.
func (b *liveBook) serve(h http.Handler, w http.ResponseWriter, r *http.Request, isMarked bool) {
	t := b.begin(isMarked)
	if t == nil {
		h.ServeHTTP(w, r)
		return
	}
	heard := &hearing{ResponseWriter: w, sum: fnv.New64a()}
	whole := false
	defer func() { b.end(t, heard, whole, r.Context().Err() != nil) }()
	h.ServeHTTP(heard, r.WithContext(context.WithValue(r.Context(), liveKey{}, t)))
	whole = true
}

// strike notes that a fault has befallen a call of a task.
func (b *liveBook) strike(task int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[task].struck = true
}

// end says how a task ended for its client. One whose client has left says nothing,
// and neither does one that was wrong, or that the endpoint did not want.
func (b *liveBook) end(t *liveTask, h *hearing, whole, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.ended, t.Status, t.Bytes, t.Sum = time.Now(), h.status, h.n, h.sum.Sum64()
	t.RetryAfter, t.Reason = h.Header().Get("Retry-After"), h.Header().Get("Headgate-Reason")
	switch {
	case left:
		t.End = drill.Unsent
	case t.Reason != "":
		t.End = drill.Refused
	case h.status >= 400 && h.status < 500 && !t.struck:
		t.End = drill.Unsent
	case h.status >= 200 && h.status < 300 && whole:
		t.End = drill.Served
	case h.status >= 200 && h.status < 300:
		t.End = drill.Broken
	default:
		t.End = drill.Error
	}
}

// hearing is a client that is listened to.
type hearing struct {
	http.ResponseWriter
	status int
	n      int64
	sum    hash.Hash64
}

// Unwrap lets http.ResponseController through.
func (h *hearing) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hearing) WriteHeader(status int) {
	if status >= 200 && h.status == 0 {
		h.status = status
	}
	h.ResponseWriter.WriteHeader(status)
}

func (h *hearing) Write(p []byte) (int, error) {
	if h.status == 0 {
		h.status = http.StatusOK
	}
	n, err := h.ResponseWriter.Write(p)
	_, _ = h.sum.Write(p[:n]) // never fails
	h.n += int64(n)
	return n, err
}

// reached notes that a call was made for a task, and says whether it is one of the
// pool that is looked at.
func (b *liveBook) reached(t *liveTask, pool string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.pool = pool
	return pool == b.pool
}

// see fills in what is known, at a scenario time.
func (b *liveBook) see(e *drill.Evidence) {
	b.mu.Lock()
	seen := make(map[int]bool)
	for _, t := range b.tasks {
		if t.pool != b.pool && !(t.pool == "" && b.only) || b.mark && !t.marked {
			continue
		}
		task := t.Task
		task.Sent, task.Ended = b.clock.at(t.sent), b.clock.at(t.ended)
		task.Due = task.Sent
		seen[task.ID] = true
		e.Tasks = append(e.Tasks, task)
		if task.End != drill.Unsent {
			e.Planned++
		}
	}
	if b.full {
		e.Stale = "production has more tasks than can be judged"
	}
	b.mu.Unlock()
	e.Calls = slices.DeleteFunc(b.calls.seen(), func(c drill.Call) bool { return !seen[c.Task] })
}

// strayed says how many calls were touched that should not have been: of tasks that
// are not marked, or more than the share. A share of few tasks is never exact.
func (l *liveWays) strayed(r drill.Run) drill.Reading {
	b := l.book.Load()
	if b == nil {
		return drill.Reading{Why: "nobody looks at production any more"}
	}
	calls := b.calls.seen()
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
	if most := int(r.Spec.Share*float64(len(calls))) + shareSlack; !r.Spec.Marked {
		wrong = max(0, touched-most)
	}
	return drill.Reading{
		Known: true, Value: float64(wrong), Samples: len(calls), Seen: "production's way upstream",
		Why: fmt.Sprintf("%d of %d calls were touched, %d of them should not have been", touched, len(calls), wrong),
	}
}

// shareSlack is how far an even share may be off, in calls.
const shareSlack = 4
