package alerts

import (
	"errors"
	"fmt"
	"time"
)

// rules are what settling needs to know besides the attempt.
type rules struct {
	backoff  Backoff
	random   func() float64
	routes   Routes
	newID    func() string
	lookWait time.Duration // before looking whether something has arrived
}

// settled is what an attempt has come to.
type settled struct {
	changes Changes
	result  Result
	stuck   *Delivery     // it will not arrive where it should have
	hold    time.Duration // the channel takes nothing for so long
}

// maxAfter bounds what a receiver may ask for.
const maxAfter = 15 * time.Minute

// settle turns a sender's report into changes. It is pure but for the random
// numbers.
func (r rules) settle(s step, a Attempt, now time.Time) settled {
	d := s.d
	d.Reason = a.Reason
	opens := d.Opens(s.root)
	if a.Outcome == Arrived && opens && a.Ref == (Ref{}) {
		a.Outcome, d.Reason = Unknown, "the receiver did not say where the message stands"
	}
	switch a.Outcome {
	case Arrived:
		return arrived(d, s.root, a.Ref)
	case Unknown:
		return r.unknown(d, s.root, now)
	case Never:
		return r.never(d)
	case Malformed:
		if d.Plain {
			return r.never(d)
		}
		d.Plain = true
		return again(d, now)
	case RootGone:
		if !opens {
			res := again(d, now)
			res.changes.Roots = []Root{{Incident: d.Incident, Destination: d.Destination}}
			return res
		}
	}
	wait := min(a.After, maxAfter)
	if wait <= 0 {
		wait = r.backoff.wait(d.Attempts, r.random())
	}
	res := again(d, now.Add(wait))
	res.hold = max(0, min(a.After, maxAfter))
	return res
}

func arrived(d Delivery, root, at Ref) settled {
	d.State, d.Reason, d.Ref = Sent, "", at
	res := settled{result: ResultSent, changes: Changes{Update: []Delivery{d}}}
	if d.Opens(root) {
		res.changes.Roots = []Root{{Incident: d.Incident, Destination: d.Destination, Ref: at}}
	}
	return res
}

func again(d Delivery, at time.Time) settled {
	d.State, d.NotBefore = Retry, at
	return settled{result: ResultRetry, changes: Changes{Update: []Delivery{d}}}
}

func (r rules) unknown(d Delivery, root Ref, now time.Time) settled {
	if d.edits(root) {
		return again(d, now.Add(r.backoff.wait(d.Attempts, r.random())))
	}
	d.State, d.NotBefore = Uncertain, now.Add(r.lookWait)
	return settled{result: ResultUncertain, changes: Changes{Update: []Delivery{d}}}
}

// never gives a delivery up where it should have gone, and has the fallback say
// it, and why.
func (r rules) never(d Delivery) settled {
	dead := d
	dead.State = Dead
	res := settled{result: ResultDead, stuck: &dead, changes: Changes{Update: []Delivery{dead}}}
	if to, ok := r.routes.fallback(d.Destination); ok {
		res.changes.Add = []Delivery{r.divert(d, to)}
	}
	return res
}

func (r rules) divert(d Delivery, to Destination) Delivery {
	if d.Note.Diverted == "" {
		d.Note.From = d.Destination
	}
	d.Note.Diverted = d.Reason
	return Delivery{
		ID: r.newID(), Incident: d.Incident, Seq: d.Seq, Kind: d.Kind, Destination: to,
		Note: d.Note, Created: d.Created, State: Queued,
	}
}

// found turns what looking has come to into changes.
func (r rules) found(s step, ref Ref, there bool, err error, now time.Time) settled {
	d := s.d
	if d.State == Sending {
		d.Doubts = 0 // a process that ended is not the receiver's doing
	}
	switch {
	case errors.Is(err, ErrCannotTell):
		return r.doubt(d, now)
	case err != nil:
		d.State, d.Attempts = Uncertain, d.Attempts+1
		d.NotBefore = now.Add(r.lookWait + r.backoff.wait(d.Attempts, r.random()))
		d.Reason = fmt.Sprintf("not known whether it arrived: %v", err)
		return settled{result: ResultUncertain, changes: Changes{Update: []Delivery{d}}}
	case there && ref != (Ref{}):
		return arrived(d, s.root, ref)
	default:
		d.Note.Repeat = true
		return again(d, now)
	}
}

// doubt sends again what cannot be looked up: once at once, then elsewhere. Where
// there is no elsewhere, a repeat now and then is better than silence.
func (r rules) doubt(d Delivery, now time.Time) settled {
	if _, ok := r.routes.fallback(d.Destination); ok && d.Doubts > 0 {
		d.Reason = "sent twice, and not known whether either arrived"
		return r.never(d)
	}
	at := now
	if d.Doubts > 0 {
		at = now.Add(min(maxAfter, time.Minute<<min(d.Doubts, 10)))
	}
	d.Doubts++
	d.Note.Repeat = true
	return again(d, at)
}
