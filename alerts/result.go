package alerts

import (
	"errors"
	"fmt"
	"time"
)

// decision is what follows from an attempt or a look-up.
type decision struct {
	changes     Changes       // Update[0] is the delivery in its new state
	channelHold time.Duration // the channel accepts nothing for this long
}

// maxRetryAfter limits the delay that a receiver may ask for.
const maxRetryAfter = 15 * time.Minute

// applySend turns a notifier's report into changes. It is pure but for the random numbers.
func (o Options) applySend(s step, result SendResult, now time.Time) decision {
	d := s.delivery
	d.Reason = result.Reason
	opens := d.StartsThread(s.thread)
	if result.Outcome == Delivered && opens && result.Ref == (Ref{}) {
		result.Outcome, d.Reason = Ambiguous, "no message reference returned"
	}
	switch result.Outcome {
	case Delivered:
		return markSent(d, s.thread, result.Ref)
	case Ambiguous:
		if d.EditsMessage(s.thread) { // repeating it does no harm
			return retryAt(d, now.Add(backoff(d.Attempts, o.Random())))
		}
		d.State, d.NotBefore = Uncertain, now.Add(lookupDelay)
		return update(d)
	case PermanentFailure:
		return o.giveUp(d)
	case Malformed:
		if d.PlainText {
			return o.giveUp(d)
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
	hold := max(0, min(result.RetryAfter, maxRetryAfter))
	wait := hold
	if wait == 0 {
		wait = backoff(d.Attempts, o.Random())
	}
	res := retryAt(d, now.Add(wait))
	res.channelHold = hold
	return res
}

func update(d Delivery) decision { return decision{changes: Changes{Update: []Delivery{d}}} }

func retryAt(d Delivery, at time.Time) decision {
	d.State, d.NotBefore = Retry, at
	return update(d)
}

func markSent(d Delivery, thread, at Ref) decision {
	d.State, d.Reason, d.Ref = Sent, "", at
	res := update(d)
	if d.StartsThread(thread) {
		res.changes.Threads = []Thread{{Incident: d.Incident, Destination: d.Destination, Ref: at}}
	}
	return res
}

// giveUp ends a delivery at its destination and adds one for the fallback, with the reason.
func (o Options) giveUp(d Delivery) decision {
	d.State = Dead
	res := update(d)
	if to, ok := o.Routes.fallback(d.Destination); ok {
		n := d.Notification
		if n.FallbackReason == "" {
			n.FallbackFrom = d.Destination
		}
		n.FallbackReason = d.Reason
		res.changes.Add = []Delivery{{
			ID: o.NewID(), Incident: d.Incident, Seq: d.Seq, Kind: d.Kind, Destination: to,
			Notification: n, Created: d.Created, State: Queued,
		}}
	}
	return res
}

// applyLookup turns the result of a look-up into changes.
func (o Options) applyLookup(s step, ref Ref, found bool, err error, now time.Time) decision {
	d := s.delivery
	if d.State == Sending {
		d.AmbiguousAttempts = 0 // the process ended; the receiver did nothing ambiguous
	}
	switch {
	case errors.Is(err, ErrLookupUnavailable):
		return o.resendAmbiguous(d, now)
	case err != nil:
		d.State, d.Attempts = Uncertain, d.Attempts+1
		d.NotBefore = now.Add(lookupDelay + backoff(d.Attempts, o.Random()))
		d.Reason = fmt.Sprintf("delivery unconfirmed: %v", err)
		return update(d)
	case found && ref != (Ref{}):
		return markSent(d, s.thread, ref)
	default:
		d.Notification.PossibleDuplicate = true
		return retryAt(d, now)
	}
}

// resendAmbiguous repeats a delivery that cannot be looked up: once at once, then at the fallback. Without a fallback
// it is repeated with growing pauses, because an occasional duplicate is better than silence.
func (o Options) resendAmbiguous(d Delivery, now time.Time) decision {
	at := now
	if d.AmbiguousAttempts > 0 {
		if _, ok := o.Routes.fallback(d.Destination); ok {
			d.Reason = "sent twice, delivery unconfirmed"
			return o.giveUp(d)
		}
		at = now.Add(min(maxRetryAfter, time.Minute<<min(d.AmbiguousAttempts, 10)))
	}
	d.AmbiguousAttempts++
	d.Notification.PossibleDuplicate = true
	return retryAt(d, at)
}

const (
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

// backoff returns the pause after so many failed attempts, r being from [0, 1): the n-th one is drawn evenly from zero
// to minBackoff·2ⁿ, at most maxBackoff ("full jitter", Marc Brooker, "Exponential Backoff And Jitter", 2015).
func backoff(attempts int, r float64) time.Duration {
	ceiling := min(minBackoff<<min(max(attempts-1, 0), 10), maxBackoff)
	return time.Duration(r * float64(ceiling))
}
