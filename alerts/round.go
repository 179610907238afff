package alerts

import (
	"context"
	"time"
)

// round begins what can be begun now, and returns how long nothing needs to be
// done unless something happens.
func (d *Deliverer) round(ctx context.Context, now time.Time) time.Duration {
	d.accept()
	d.flush(now)
	recorded, known := d.pending(now)
	all := d.mem.over(recorded)
	if known || len(all) > 0 {
		d.o.Metrics.setOldest(oldest(all))
	}
	d.forget(all)
	wake := now.Add(d.o.Poll)
	if !d.mem.empty() || d.notBefore.After(now) {
		wake = earlier(wake, d.notBefore)
	}
	for to, best := range d.choose(all, now, &wake) {
		if !d.begin(ctx, d.lane(to), best, now) {
			wake = earlier(wake, d.notBefore)
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

// accept moves what was handed over into memory.
func (d *Deliverer) accept() {
	d.mu.Lock()
	in := d.inbox
	d.inbox = nil
	d.mu.Unlock()
	for _, x := range in {
		_, there := d.mem.ds[x.Key()]
		switch {
		case there: // handed over twice
		case d.mem.full():
			d.o.Metrics.count(x.Destination, ResultLost)
			d.o.Log.Error("a page could not be recorded, and memory is full", "incident", x.Incident)
		default:
			d.mem.take(Changes{Add: []Delivery{x}})
		}
	}
}

// choose returns the best step of each lane that is free, and lowers wake to when
// the next one will be due.
func (d *Deliverer) choose(all map[stream][]Delivery, now time.Time, wake *time.Time) map[Destination]step {
	best := make(map[Destination]step)
	for at, ds := range all {
		l := d.lane(at.to)
		if l.busy {
			continue // its end begins a round
		}
		for _, s := range steps(ds, d.root(at, now)) {
			due := s.due(d.o.LookWait)
			if free := l.free(s); free.After(due) {
				due = free
			}
			if due.After(now) {
				*wake = earlier(*wake, due)
				continue
			}
			if b, ok := best[at.to]; !ok || s.before(b) {
				best[at.to] = s
			}
			break
		}
	}
	return best
}

// begin claims a step and starts it. It returns false if the claim could not be
// recorded, and the step can wait.
func (d *Deliverer) begin(ctx context.Context, l *lane, s step, now time.Time) bool {
	if !s.find {
		s.d.Note.Late = now.Sub(s.d.Created) > d.o.LateAfter
		s.d.State, s.d.Attempts, s.d.Tried, s.d.Reason = Sending, s.d.Attempts+1, now, ""
		for i := range s.added {
			s.added[i].ID = d.o.NewID()
		}
		c := Changes{Add: s.added, Update: append(s.dropped, s.d)}
		if !d.claim(s, c, now) {
			return false
		}
		for _, x := range s.dropped {
			d.o.Metrics.count(x.Destination, ResultDropped)
		}
	}
	l.used(s, now, d.o)
	l.busy, l.at = true, s.d.stream()
	go d.attempt(ctx, s)
	return true
}

// claim records that a step is being sent. What is urgent is sent even if that
// fails, as long as memory can hold it.
func (d *Deliverer) claim(s step, c Changes, now time.Time) bool {
	if _, held := d.mem.ds[s.d.Key()]; !held && d.save(c, now) {
		return true
	} else if !held && (!urgent(s.d) || d.mem.full()) {
		return false
	}
	d.mem.take(c)
	return true
}

// attempt runs beside the deliverer's goroutine and reports to it.
func (d *Deliverer) attempt(ctx context.Context, s step) {
	ctx, cancel := context.WithTimeout(ctx, d.o.SendTimeout)
	defer cancel()
	r := report{s: s}
	defer func() {
		if p := recover(); p != nil {
			// What it was may hold what was to be sent: it is not told.
			r = report{s: s, attempt: Attempt{Outcome: Malformed, Reason: "the sender panicked"}, err: ErrCannotTell}
			d.o.Log.Error("a sender panicked", "destination", s.d.Destination, "delivery", s.d.ID)
		}
		d.results <- r
	}()
	sender := d.o.Senders[s.d.Destination]
	switch {
	case sender == nil && s.find:
		r.err = ErrCannotTell
	case sender == nil:
		r.attempt = Attempt{Outcome: Never, Reason: errNoSender.Error()}
	case s.find:
		r.ref, r.there, r.err = sender.Find(ctx, s.d, s.root)
	default:
		r.attempt = sender.Send(ctx, s.d, s.root, s.d.Plain)
	}
}

// settle records what a step has come to.
func (d *Deliverer) settle(r report) {
	now := time.Now()
	l := d.lane(r.s.d.Destination)
	l.busy = false
	var res settled
	if r.s.find {
		res = d.rules.found(r.s, r.ref, r.there, r.err, now)
	} else {
		res = d.rules.settle(r.s, r.attempt, now)
	}
	if res.hold > 0 { // the receiver speaks for the whole channel
		l.heldUntil = now.Add(res.hold)
	}
	for _, root := range res.changes.Roots {
		d.roots[stream{root.Incident, root.Destination}] = root.Ref
	}
	// What memory holds is newer than the record: it is saved whole, or later.
	held := !d.mem.empty()
	if held || !d.save(res.changes, now) {
		d.mem.take(res.changes)
	}
	d.o.Metrics.count(r.s.d.Destination, res.result)
	d.tell(r.s, res)
}

func (d *Deliverer) tell(s step, res settled) {
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
	if res.stuck != nil {
		d.o.OnStuck(*res.stuck)
	}
}
