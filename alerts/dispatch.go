package alerts

import (
	"context"
	"time"
)

// dispatch begins what can be begun now, and returns how long nothing needs to be
// done unless something happens.
func (d *Dispatcher) dispatch(ctx context.Context, now time.Time) time.Duration {
	d.drainInbox()
	d.flush(now)
	recorded, known := d.pending(now)
	all := d.buffer.mergeByThread(recorded)
	if known || len(all) > 0 {
		d.o.Metrics.setOldestPending(oldestCreated(all))
	}
	d.pruneThreads(all)
	wake := now.Add(d.o.PollInterval)
	if !d.buffer.empty() || d.outboxRetryAt.After(now) {
		wake = earlier(wake, d.outboxRetryAt)
	}
	for to, best := range d.selectSteps(all, now, &wake) {
		if !d.startStep(ctx, d.channel(to), best, now) {
			wake = earlier(wake, d.outboxRetryAt)
		}
	}
	return max(time.Millisecond, wake.Sub(now))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// drainInbox moves what was handed over into memory.
func (d *Dispatcher) drainInbox() {
	d.mu.Lock()
	in := d.inbox
	d.inbox = nil
	d.mu.Unlock()
	for _, x := range in {
		_, there := d.buffer.deliveries[x.Key()]
		switch {
		case there: // handed over twice
		case d.buffer.full():
			d.o.Metrics.count(x.Destination, ResultLost)
			d.o.Log.Error("a page could not be recorded, and memory is full", "incident", x.Incident)
		default:
			d.buffer.add(Changes{Add: []Delivery{x}})
		}
	}
}

// selectSteps returns the best step of each lane that is free, and lowers wake to when
// the next one will be due.
func (d *Dispatcher) selectSteps(all map[threadKey][]Delivery, now time.Time, wake *time.Time) map[Destination]step {
	best := make(map[Destination]step)
	for at, ds := range all {
		l := d.channel(at.destination)
		if l.busy {
			continue // its end begins a round
		}
		for _, s := range nextSteps(ds, d.threadRef(at, now)) {
			due := s.dueAt(d.o.LookupDelay)
			if free := l.availableAt(s); free.After(due) {
				due = free
			}
			if due.After(now) {
				*wake = earlier(*wake, due)
				continue
			}
			if b, ok := best[at.destination]; !ok || s.precedes(b) {
				best[at.destination] = s
			}
			break
		}
	}
	return best
}

// startStep claims a step and starts it. It returns false if the claim could not be
// recorded, and the step can wait.
func (d *Dispatcher) startStep(ctx context.Context, l *channel, s step, now time.Time) bool {
	if !s.lookup {
		s.delivery.Notification.Late = now.Sub(s.delivery.Created) > d.o.LateAfter
		s.delivery.State, s.delivery.Attempts, s.delivery.LastAttempt, s.delivery.Reason = Sending, s.delivery.Attempts+1, now, ""
		for i := range s.added {
			s.added[i].ID = d.o.NewID()
		}
		c := Changes{Add: s.added, Update: append(s.dropped, s.delivery)}
		if !d.claim(s, c, now) {
			return false
		}
		for _, x := range s.dropped {
			d.o.Metrics.count(x.Destination, ResultDropped)
		}
	}
	l.reserve(s, now, d.o)
	l.busy, l.thread = true, s.delivery.threadKey()
	go d.runStep(ctx, s)
	return true
}

// claim records that a step is being sent. What is urgent is sent even if that
// fails, as long as memory can hold it.
func (d *Dispatcher) claim(s step, c Changes, now time.Time) bool {
	if _, held := d.buffer.deliveries[s.delivery.Key()]; !held && d.save(c, now) {
		return true
	} else if !held && (!urgent(s.delivery) || d.buffer.full()) {
		return false
	}
	d.buffer.add(c)
	return true
}

// runStep runs beside the deliverer's goroutine and reports to it.
func (d *Dispatcher) runStep(ctx context.Context, s step) {
	ctx, cancel := context.WithTimeout(ctx, d.o.SendTimeout)
	defer cancel()
	r := stepResult{step: s}
	defer func() {
		if p := recover(); p != nil {
			// What it was may hold what was to be sent: it is not told.
			r = stepResult{step: s, send: SendResult{Outcome: Malformed, Reason: "the sender panicked"}, err: ErrLookupUnavailable}
			d.o.Log.Error("a sender panicked", "destination", s.delivery.Destination, "delivery", s.delivery.ID)
		}
		d.results <- r
	}()
	sender := d.o.Notifiers[s.delivery.Destination]
	switch {
	case sender == nil && s.lookup:
		r.err = ErrLookupUnavailable
	case sender == nil:
		r.send = SendResult{Outcome: PermanentFailure, Reason: errNoNotifier.Error()}
	case s.lookup:
		r.ref, r.found, r.err = sender.Lookup(ctx, s.delivery, s.root)
	default:
		r.send = sender.Send(ctx, s.delivery, s.root, s.delivery.PlainText)
	}
}

// handleResult records what a step has come to.
func (d *Dispatcher) handleResult(r stepResult) {
	now := time.Now()
	l := d.channel(r.step.delivery.Destination)
	l.busy = false
	var res decision
	if r.step.lookup {
		res = d.rules.applyLookup(r.step, r.ref, r.found, r.err, now)
	} else {
		res = d.rules.applySend(r.step, r.send, now)
	}
	if res.channelHold > 0 { // the receiver speaks for the whole channel
		l.heldUntil = now.Add(res.channelHold)
	}
	for _, root := range res.changes.Threads {
		d.threads[threadKey{root.Incident, root.Destination}] = root.Ref
	}
	// What memory holds is newer than the record: it is saved whole, or later.
	held := !d.buffer.empty()
	if held || !d.save(res.changes, now) {
		d.buffer.add(res.changes)
	}
	d.o.Metrics.count(r.step.delivery.Destination, res.result)
	d.logResult(r.step, res)
}

func (d *Dispatcher) logResult(s step, res decision) {
	last := res.changes.Update[0]
	log := d.o.Log.With("incident", last.Incident, "seq", last.Seq, "kind", last.Kind, "destination", last.Destination)
	switch res.result {
	case ResultSent:
		log.Debug("delivered", "attempts", last.Attempts)
	case ResultDead:
		log.Error("will not be delivered there", "reason", last.Reason)
	default:
		log.Warn("not delivered yet", "result", res.result, "reason", last.Reason, "attempts", last.Attempts)
	}
	if res.undeliverable != nil {
		d.o.OnUndeliverable(*res.undeliverable)
	}
}
