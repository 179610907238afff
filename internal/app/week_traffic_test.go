package app

import (
	"container/heap"
	"time"

	"headgate/internal/loadgen"
	"headgate/proxy"
	"headgate/proxy/admission"
)

// traffic takes arrivals through a gate, in one goroutine.
type traffic struct {
	gate    *admission.Gate
	metrics *proxy.Metrics
	slo     time.Duration
	running running
	granted []*job // by the gate, and not begun yet
}

// job is an arrival that was let in.
type job struct {
	t       *traffic
	service time.Duration
	arrived time.Time
	started time.Time
	ends    time.Time
	ticket  *admission.Ticket
}

// Settled implements admission.Waiter.
func (j *job) Settled(r admission.Refusal) {
	if r.Reason != admission.ReasonNone {
		j.t.turnedAway(j.arrived, r.Reason)
		return
	}
	j.t.granted = append(j.t.granted, j)
}

// run sleeps from event to event until the span is over.
func (t *traffic) run(s stretch) {
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
func (t *traffic) finishUntil(at time.Time) {
	for len(t.running) > 0 && !t.running[0].ends.After(at) {
		j := heap.Pop(&t.running).(*job)
		sleepUntil(j.ends)
		t.gate.Release(j.ends, j.ticket, admission.Served)
		t.metrics.Ended(proxy.Observation{
			Pool: weekPool, Outcome: admission.Completed, Arrived: j.arrived, Granted: true, Queued: j.started.Sub(j.arrived),
			Service: j.service, Turnaround: j.ends.Sub(j.arrived), FirstByte: j.started.Sub(j.arrived) + j.service/2,
		})
		t.beginGranted(j.ends)
	}
}

func (t *traffic) offer(a loadgen.Arrival) {
	now := time.Now()
	t.metrics.Arrived(weekPool)
	j := &job{t: t, arrived: now, service: serviceOf(a)}
	d := t.gate.Offer(now, admission.Task{Deadline: now.Add(t.slo), Waiter: j})
	if d.Reason != admission.ReasonNone {
		t.turnedAway(now, d.Reason)
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
func (t *traffic) beginGranted(now time.Time) {
	for len(t.granted) > 0 {
		j := t.granted[0]
		t.granted = t.granted[1:]
		if d := t.gate.Start(now, j.ticket); d.Reason != admission.ReasonNone {
			t.turnedAway(j.arrived, d.Reason)
			continue
		}
		j.started, j.ends = now, now.Add(j.service)
		heap.Push(&t.running, j)
	}
}

func (t *traffic) turnedAway(arrived time.Time, r admission.Reason) {
	t.metrics.Ended(proxy.Observation{
		Pool: weekPool, Outcome: r.Outcome(), Reason: r, Arrived: arrived, Turnaround: time.Since(arrived),
	})
}

// running is a heap of jobs by when they end.
type running []*job

func (r running) Len() int           { return len(r) }
func (r running) Less(i, j int) bool { return r[i].ends.Before(r[j].ends) }
func (r running) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *running) Push(x any)        { *r = append(*r, x.(*job)) }
func (r *running) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}
