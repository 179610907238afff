package proxy

import (
	"net/http"
	"time"

	"headgate/proxy/admission"
)

// waiterChan hears from the gate how a task's wait ended.
type waiterChan chan admission.Refusal

// Done is called once; the channel has room for it.
func (w waiterChan) Done(r admission.Refusal) { w <- r }

// admit gets the task its permit, or says why it gets none.
func (t *task) admit() *failure {
	left, f := deadline(t.r.Header, t.obs.Class, t.pool.SLO)
	if f != nil {
		return f
	}
	if err := t.r.Context().Err(); err != nil {
		return clientGone(err)
	}
	wait := make(waiterChan, 1)
	due := t.obs.Arrived.Add(left)
	d := t.offer(admission.Task{Class: t.obs.Class, Deadline: due, JitterSeed: t.jitterSeed, Waiter: wait})
	if d.Ticket == nil {
		return refusalFailure(d.Refusal)
	}
	if d.Waiting {
		if f := t.wait(wait, due); f != nil {
			return f
		}
		return t.start(false)
	}
	t.observeFastPath(t.obs.Gate)
	return t.start(true)
}

// observeFastPath reports how long a call on the gate took for a task that found a
// permit free; each at once, since the next one may take as long again.
func (t *task) observeFastPath(took time.Duration) {
	t.p.observer.OnGateEvent(GateEvent{Pool: t.pool.Name, FastPath: true, Took: took})
}

// offer offers the task to its gate.
func (t *task) offer(task admission.Task) admission.Decision {
	t.offered = time.Now()
	defer t.reportGatePanics()
	d := t.pool.Gate.Offer(t.offered, task)
	t.obs.Gate += time.Since(t.offered)
	t.obs.ObservedReason = d.ObservedReason
	t.ticket = d.Ticket
	if d.Violation != "" {
		t.reportFalseRefusal(d)
	}
	return d
}

// wait waits for the end of the queue: a permit, a refusal, the deadline or the
// client's departure.
func (t *task) wait(settled waiterChan, due time.Time) *failure {
	expiry := time.NewTimer(time.Until(due))
	defer expiry.Stop()
	keepAlive, stop := t.keepAliveTicks()
	defer stop()
	for {
		select {
		case r := <-settled:
			t.obs.Queued = time.Since(t.offered)
			if r.Reason != admission.ReasonNone {
				return refusalFailure(r)
			}
			return nil
		case <-t.r.Context().Done():
			t.obs.Queued = time.Since(t.offered)
			// If the grant came first, finish gives the permit back.
			t.pool.Gate.Cancel(time.Now(), t.ticket)
			return clientGone(t.r.Context().Err())
		case <-expiry.C:
			if r := t.expire(); r.Reason != admission.ReasonNone {
				t.obs.Queued = time.Since(t.offered)
				return refusalFailure(r)
			}
		case <-keepAlive:
			if f := t.keepAlive(); f != nil {
				t.pool.Gate.Cancel(time.Now(), t.ticket)
				return f
			}
		}
	}
}

func (t *task) expire() admission.Refusal {
	defer t.reportGatePanics()
	return t.pool.Gate.Expire(time.Now(), t.ticket)
}

// start asks the gate a last time before the task goes upstream.
func (t *task) start(free bool) *failure {
	now := time.Now()
	d := t.checkBeforeDispatch(now)
	took := time.Since(now)
	t.obs.Gate += took
	if free {
		t.observeFastPath(took)
	}
	if d.Reason != admission.ReasonNone {
		return refusalFailure(d.Refusal)
	}
	if t.obs.ObservedReason == admission.ReasonNone {
		t.obs.ObservedReason = d.ObservedReason
	}
	t.granted = now
	if err := t.r.Context().Err(); err != nil {
		return clientGone(err)
	}
	return nil
}

func (t *task) checkBeforeDispatch(now time.Time) admission.Decision {
	defer t.reportGatePanics()
	return t.pool.Gate.Start(now, t.ticket)
}

// keepAliveTicks ticks while a stream waits, if its pool says so.
func (t *task) keepAliveTicks() (<-chan time.Time, func()) {
	if t.pool.StreamKeepAlive <= 0 || !t.info.stream {
		return nil, func() {}
	}
	ticker := time.NewTicker(t.pool.StreamKeepAlive)
	return ticker.C, ticker.Stop
}

// keepAlive sends a comment of one line without an event's end: the only thing
// that every known client takes for nothing. The first one commits a 200.
func (t *task) keepAlive() *failure {
	if !t.headersSent {
		t.headersSent, t.keepAliveSent = true, true
		t.setIDs()
		h := t.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		t.obs.Status = http.StatusOK
		t.w.WriteHeader(http.StatusOK)
	}
	return t.send([]byte(": waiting\n"), true)
}
