package alerts

import (
	"errors"
	"fmt"
	"time"
)

// resultRules are what settling needs to know besides the attempt.
type resultRules struct {
	backoff     Backoff
	random      func() float64
	routes      Routes
	newID       func() string
	lookupDelay time.Duration // before looking whether something has arrived
}

// decision is what an attempt has come to.
type decision struct {
	changes       Changes
	result        Result
	undeliverable *Delivery     // it will not arrive where it should have
	channelHold   time.Duration // the channel takes nothing for so long
}

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = 15 * time.Minute

// applySend turns a sender's report into changes. It is pure but for the random
// numbers.
func (r resultRules) applySend(s step, a SendResult, now time.Time) decision {
	d := s.delivery
	d.Reason = a.Reason
	opens := d.StartsThread(s.root)
	if a.Outcome == Delivered && opens && a.Ref == (Ref{}) {
		a.Outcome, d.Reason = Ambiguous, "the receiver did not say where the message stands"
	}
	switch a.Outcome {
	case Delivered:
		return markSent(d, s.root, a.Ref)
	case Ambiguous:
		return r.markUncertain(d, s.root, now)
	case PermanentFailure:
		return r.giveUp(d)
	case Malformed:
		if d.PlainText {
			return r.giveUp(d)
		}
		d.PlainText = true
		return retryAt(d, now)
	case ThreadGone:
		if !opens {
			res := retryAt(d, now)
			res.changes.Threads = []Thread{{Incident: d.Incident, Destination: d.Destination}}
			return res
		}
	}
	wait := min(a.RetryAfter, maxRetryAfter)
	if wait <= 0 {
		wait = r.backoff.delay(d.Attempts, r.random())
	}
	res := retryAt(d, now.Add(wait))
	res.channelHold = max(0, min(a.RetryAfter, maxRetryAfter))
	return res
}

func markSent(d Delivery, root, at Ref) decision {
	d.State, d.Reason, d.Ref = Sent, "", at
	res := decision{result: ResultSent, changes: Changes{Update: []Delivery{d}}}
	if d.StartsThread(root) {
		res.changes.Threads = []Thread{{Incident: d.Incident, Destination: d.Destination, Ref: at}}
	}
	return res
}

func retryAt(d Delivery, at time.Time) decision {
	d.State, d.NotBefore = Retry, at
	return decision{result: ResultRetry, changes: Changes{Update: []Delivery{d}}}
}

func (r resultRules) markUncertain(d Delivery, root Ref, now time.Time) decision {
	if d.editsMessage(root) {
		return retryAt(d, now.Add(r.backoff.delay(d.Attempts, r.random())))
	}
	d.State, d.NotBefore = Uncertain, now.Add(r.lookupDelay)
	return decision{result: ResultUncertain, changes: Changes{Update: []Delivery{d}}}
}

// giveUp gives a delivery up where it should have gone, and has the fallback say
// it, and why.
func (r resultRules) giveUp(d Delivery) decision {
	dead := d
	dead.State = Dead
	res := decision{result: ResultDead, undeliverable: &dead, changes: Changes{Update: []Delivery{dead}}}
	if to, ok := r.routes.fallback(d.Destination); ok {
		res.changes.Add = []Delivery{r.toFallback(d, to)}
	}
	return res
}

func (r resultRules) toFallback(d Delivery, to Destination) Delivery {
	if d.Notification.FallbackReason == "" {
		d.Notification.FallbackFrom = d.Destination
	}
	d.Notification.FallbackReason = d.Reason
	return Delivery{
		ID: r.newID(), Incident: d.Incident, Seq: d.Seq, Kind: d.Kind, Destination: to,
		Notification: d.Notification, Created: d.Created, State: Queued,
	}
}

// applyLookup turns what looking has come to into changes.
func (r resultRules) applyLookup(s step, ref Ref, there bool, err error, now time.Time) decision {
	d := s.delivery
	if d.State == Sending {
		d.AmbiguousAttempts = 0 // a process that ended is not the receiver's doing
	}
	switch {
	case errors.Is(err, ErrLookupUnavailable):
		return r.resendAmbiguous(d, now)
	case err != nil:
		d.State, d.Attempts = Uncertain, d.Attempts+1
		d.NotBefore = now.Add(r.lookupDelay + r.backoff.delay(d.Attempts, r.random()))
		d.Reason = fmt.Sprintf("not known whether it arrived: %v", err)
		return decision{result: ResultUncertain, changes: Changes{Update: []Delivery{d}}}
	case there && ref != (Ref{}):
		return markSent(d, s.root, ref)
	default:
		d.Notification.PossibleDuplicate = true
		return retryAt(d, now)
	}
}

// resendAmbiguous sends again what cannot be looked up: once at once, then elsewhere. Where
// there is no elsewhere, a repeat now and then is better than silence.
func (r resultRules) resendAmbiguous(d Delivery, now time.Time) decision {
	if _, ok := r.routes.fallback(d.Destination); ok && d.AmbiguousAttempts > 0 {
		d.Reason = "sent twice, and not known whether either arrived"
		return r.giveUp(d)
	}
	at := now
	if d.AmbiguousAttempts > 0 {
		at = now.Add(min(maxRetryAfter, time.Minute<<min(d.AmbiguousAttempts, 10)))
	}
	d.AmbiguousAttempts++
	d.Notification.PossibleDuplicate = true
	return retryAt(d, at)
}

// Backoff spaces attempts: the n-th wait is drawn evenly from zero to Base·2ⁿ, at
// most Max ("full jitter", Marc Brooker, "Exponential Backoff And Jitter", 2015).
type Backoff struct {
	Base, Max time.Duration
}

// delay returns the pause after so many failed attempts; r is from [0, 1).
func (b Backoff) delay(attempts int, r float64) time.Duration {
	ceiling := b.Base
	for i := 1; i < attempts && ceiling < b.Max; i++ {
		ceiling *= 2
	}
	return time.Duration(r * float64(min(ceiling, b.Max)))
}
