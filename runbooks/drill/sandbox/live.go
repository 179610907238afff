package sandbox

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// liveEnvironment is production, whose own load a live drill observes while faults hit a few of its tasks.
type liveEnvironment struct {
	*faultPoints
	environments *Environments
	run          drill.Run
	pool         Pool
	trace        *taskTrace
	clock        *scenarioClock
	touchedCalls atomic.Int64
}

func (e *Environments) openLive(r drill.Run, pool Pool) (drill.Environment, error) {
	faults, err := e.Traffic.injector(pool.Name)
	if err != nil {
		return nil, err
	}
	clock := &scenarioClock{speed: 1}
	l := &liveEnvironment{environments: e, run: r, pool: pool, clock: clock}
	l.trace = &taskTrace{clock: clock, pool: pool.Name, singlePool: pool.Only, markedOnly: r.Spec.Marked}
	l.trace.calls.clock, l.trace.calls.onFault = clock, func(task int) {
		l.touchedCalls.Add(1)
		l.trace.markFaulted(task)
	}
	l.faultPoints = &faultPoints{upstream: faults, speed: 1, scope: l.scope()}
	return l, nil
}

// scope limits faults to tasks of the trace, to marked ones if the drill is about those, and to drill.MaxLiveTasks.
func (l *liveEnvironment) scope() fault.Scope {
	return fault.Scope{Match: func(r *http.Request) bool {
		t := taskFromContext(r.Context())
		return t != nil && (!l.run.Spec.Marked || t.marked) && l.touchedCalls.Load() < drill.MaxLiveTasks
	}, MaxHits: drill.MaxLiveTasks}
}

// Inject puts a fault in force, on no more of production than the drill says and drill.MaxLiveShare.
func (l *liveEnvironment) Inject(
	ctx context.Context, target drill.FaultTarget, i drill.Injection, ttl time.Duration,
) (drill.Lease, error) {
	if most := min(l.run.Spec.Share, drill.MaxLiveShare); !l.run.Spec.Marked && i.Share > most {
		return nil, fmt.Errorf("a share of %v is more than the drill may touch, %v", i.Share, most)
	}
	return l.faultPoints.Inject(ctx, target, i, ttl)
}

// Start begins to observe production.
func (l *liveEnvironment) Start(context.Context) (time.Time, error) {
	zero := time.Now().Add(l.run.Spec.Scenario.Baseline)
	l.clock.zero.Store(&zero)
	return zero, l.environments.Traffic.attach(l.trace)
}

// Observe returns what was seen of production. Without the number of workers, the gate as a whole is not judged: it is
// left out unless all tasks are seen.
func (l *liveEnvironment) Observe(ctx context.Context) (drill.Evidence, error) {
	e := drill.Evidence{
		At: l.clock.at(time.Now()), Pool: l.pool.Name, SLO: l.pool.SLO, KeptRate: true,
		FaultHits: map[drill.FaultTarget]int{drill.TargetUpstream: int(l.touchedCalls.Load())},
	}
	if l.clock.zero.Load() == nil {
		return e, nil
	}
	if l.pool.Only && !l.run.Spec.Marked {
		e.Workers = l.pool.Workers
	}
	l.trace.addTo(&e)
	var err error
	if e.Incidents, err = l.environments.Incidents(ctx, l.pool.Name, l.run.Started); err != nil {
		return e, fmt.Errorf("incidents cannot be read: %w", err)
	}
	return e, nil
}

// RunStep refuses: a live drill has faults only.
func (l *liveEnvironment) RunStep(_ context.Context, s drill.Step) (func(context.Context) error, error) {
	return nil, fmt.Errorf("step %.40q is for a twin: a live drill has faults only", string(s.Kind))
}

// Close clears all faults and stops observing.
func (l *liveEnvironment) Close(ctx context.Context) error {
	_, err := l.Clear(ctx)
	l.environments.Traffic.detach(l.trace)
	return err
}

// taskTrace follows production's tasks while a live drill runs, at the ingress and on the way upstream. It is safe for
// concurrent use.
type taskTrace struct {
	clock      *scenarioClock
	pool       string
	singlePool bool // the pool is the only one: tasks without a call belong to it too
	markedOnly bool // only marked tasks count

	mu        sync.Mutex
	tasks     []*tracedTask
	truncated bool // there were more than drill.MaxTasks
	calls     callTrace
}

// tracedTask is a drill.Task with times of the wall clock.
type tracedTask struct {
	drill.Task
	sent, ended time.Time
	pool        string // of its call; empty: no call was made
	marked      bool
	faulted     bool // a fault hit a call
}

type tracedTaskKey struct{}

// taskFromContext returns the task that a call is for; nil for none.
func taskFromContext(ctx context.Context) *tracedTask {
	t, _ := ctx.Value(tracedTaskKey{}).(*tracedTask)
	return t
}

// add enters a task; nil if there are too many.
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

// serve serves a task and records its answer.
func (b *taskTrace) serve(h http.Handler, w http.ResponseWriter, r *http.Request, isMarked bool) {
	t := b.add(isMarked)
	if t == nil {
		h.ServeHTTP(w, r)
		return
	}
	recorder := &recordingWriter{ResponseWriter: w, sum: fnv.New64a()}
	complete := false
	defer func() { b.finish(t, recorder, complete, r.Context().Err() != nil) }()
	h.ServeHTTP(recorder, r.WithContext(context.WithValue(r.Context(), tracedTaskKey{}, t)))
	complete = true
}

// markFaulted records that a fault hit a call of a task.
func (b *taskTrace) markFaulted(task int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[task].faulted = true
}

// finish records how a task ended. A task whose client has left counts as unsent, and so does one that was the client's
// own error or that the endpoint refused.
func (b *taskTrace) finish(t *tracedTask, h *recordingWriter, complete, left bool) {
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
	case h.status >= 200 && h.status < 300 && complete:
		t.Outcome = drill.Served
	case h.status >= 200 && h.status < 300:
		t.Outcome = drill.Broken
	default:
		t.Outcome = drill.Errored
	}
}

// recordingWriter records the answer to a client.
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

// attribute records the pool of a task's call, and says whether it is the drill's.
func (b *taskTrace) attribute(t *tracedTask, pool string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.pool = pool
	return pool == b.pool
}

// addTo adds tasks and calls.
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
