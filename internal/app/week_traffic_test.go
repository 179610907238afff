package app

import (
	"container/heap"
	"time"

	"headgate/internal/loadgen"
	"headgate/proxy"
	"headgate/proxy/admission"
)

// replayTraffic takes arrivals through a gate, in one goroutine.
type replayTraffic struct {
	gate    *admission.Gate
	metrics *proxy.Metrics
	slo     time.Duration
	running taskHeap
	granted []*replayTask // by the gate, and not begun yet
}

// replayTask is an arrival that was let in.
type replayTask struct {
	t       *replayTraffic
	service time.Duration
	arrived time.Time
	started time.Time
	ends    time.Time
	ticket  *admission.Ticket
}

// Done implements admission.Waiter.
func (j *replayTask) Done(r admission.Refusal) {
	if r.Reason != admission.ReasonNone {
		j.t.rejected(j.arrived, r.Reason)
		return
	}
	j.t.granted = append(j.t.granted, j)
}

// run sleeps from event to event until the span is over.
func (t *replayTraffic) run(s replay) {
	start := time.Now()
	end := start.Add(s.length)
	for _, a := range s.arrivals {
		at := start.Add(a.At)
		if at.After(end) {
			break
		}
		t.finishUntil(at)
		sleepUntil(at)
		t.offer(a)
	}
	t.finishUntil(end)
	sleepUntil(end)
}

func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }

// finishUntil ends the jobs whose time has come, and begins those that take over.
func (t *replayTraffic) finishUntil(at time.Time) {
	for len(t.running) > 0 && !t.running[0].ends.After(at) {
		j := heap.Pop(&t.running).(*replayTask)
		sleepUntil(j.ends)
		t.gate.Release(j.ends, j.ticket, admission.Served)
		t.metrics.OnEnd(proxy.Observation{
			Pool: replayPool, Outcome: admission.Completed, Arrived: j.arrived, Granted: true, Queued: j.started.Sub(j.arrived),
			Service: j.service, Turnaround: j.ends.Sub(j.arrived), FirstByte: j.started.Sub(j.arrived) + j.service/2,
		})
		t.beginGranted(j.ends)
	}
}

func (t *replayTraffic) offer(a loadgen.Arrival) {
	now := time.Now()
	t.metrics.OnArrival(replayPool)
	j := &replayTask{t: t, arrived: now, service: serviceOf(a)}
	d := t.gate.Offer(now, admission.Task{Deadline: now.Add(t.slo), Waiter: j})
	if d.Reason != admission.ReasonNone {
		t.rejected(now, d.Reason)
		return
	}
	j.ticket = d.Ticket
	if !d.Waiting {
		t.granted = append(t.granted, j)
	}
	t.beginGranted(now)
}

// Tokens that an endpoint reads and writes in a second.
const (
	readRate  = 3000
	writeRate = 50
)

// serviceOf is how long a permit is held, from the tokens.
func serviceOf(a loadgen.Arrival) time.Duration {
	seconds := float64(a.PromptTokens)/readRate + float64(a.OutputTokens)/writeRate
	return time.Duration(seconds * float64(time.Second))
}

// beginGranted begins what holds a permit, unless its deadline has passed: then the
// permit goes on to the next one.
func (t *replayTraffic) beginGranted(now time.Time) {
	for len(t.granted) > 0 {
		j := t.granted[0]
		t.granted = t.granted[1:]
		if d := t.gate.CheckDispatch(now, j.ticket); d.Reason != admission.ReasonNone {
			t.rejected(j.arrived, d.Reason)
			continue
		}
		j.started, j.ends = now, now.Add(j.service)
		heap.Push(&t.running, j)
	}
}

func (t *replayTraffic) rejected(arrived time.Time, r admission.Reason) {
	t.metrics.OnEnd(proxy.Observation{
		Pool: replayPool, Outcome: r.Outcome(), Reason: r, Arrived: arrived, Turnaround: time.Since(arrived),
	})
}

// taskHeap is a heap of jobs by when they end.
type taskHeap []*replayTask

func (r taskHeap) Len() int           { return len(r) }
func (r taskHeap) Less(i, j int) bool { return r[i].ends.Before(r[j].ends) }
func (r taskHeap) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *taskHeap) Push(x any)        { *r = append(*r, x.(*replayTask)) }
func (r *taskHeap) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}
