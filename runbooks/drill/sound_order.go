package drill

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// prematureRefusals finds refusals before they are due. What is seen from outside
// waits no shorter than what the gate sees, so that one that is not due from here is
// not due there.
func (l *evaluation) prematureRefusals() string {
	b := l.gateOccupancy()
	free, early, refused, example := 0, 0, 0, Task{}
	for _, t := range l.Evidence.Tasks {
		if t.Outcome != Refused || len(l.callsByTask[t.ID]) > 0 || t.Reason == reasonDeadlinePassed {
			continue
		}
		refused++
		switch {
		case l.workerFree(b, t):
			free++
			example = t
		case l.queueBelowLimits(b, t):
			early++
			example = t
		}
	}
	switch {
	case free > 0:
		return fmt.Sprintf("%d tasks were refused although a worker was free and nobody waited (the last at %.0f s): the gate refuses before it is due",
			free, example.Due.Seconds())
	case early > 1 && early*50 > refused: // one or two may be a matter of milliseconds
		return fmt.Sprintf("%d tasks were refused although the queue was neither long nor old (the last at %.0f s): the gate refuses before it is due",
			early, example.Due.Seconds())
	}
	return ""
}

// workerFree says whether a worker was free and nobody waited all the time around a
// refusal.
func (l *evaluation) workerFree(b occupancy, t Task) bool {
	return b.throughout(t.Sent-l.tolerance, t.Ended+l.tolerance, func(s occupancyStep) bool {
		return s.InFlight < l.Evidence.Workers && s.Waiting == 0
	})
}

// Reasons of the threshold policy.
const (
	reasonQueueDepth = "queue_depth"
	reasonQueueAge   = "queue_age"
)

// queueBelowLimits says whether the queue was well below the limit that a refusal names, or
// below both, all the time around it.
func (l *evaluation) queueBelowLimits(b occupancy, t Task) bool {
	depth, age := l.Evidence.MaxWaiting, l.Evidence.MaxQueueAge
	if depth == 0 || age == 0 {
		return false
	}
	short := b.throughout(t.Sent-l.tolerance, t.Ended+l.tolerance, func(s occupancyStep) bool { return s.Waiting < depth-depth/8-1 })
	young := l.longestWaitDuring(t.Sent-l.tolerance, t.Ended+l.tolerance) < age-l.tolerance
	switch t.Reason { // what it gives as its reason has to be so
	case reasonQueueDepth:
		return short
	case reasonQueueAge:
		return young
	}
	return short && young
}

// longestWaitDuring is the longest that anybody had waited at some time of a span.
func (l *evaluation) longestWaitDuring(from, to time.Duration) time.Duration {
	var most time.Duration
	for _, w := range l.waits { // by their beginning
		if w.from >= to {
			break
		}
		if w.to >= from {
			most = max(most, min(w.to, to)-w.from)
		}
	}
	return most
}

// fifoViolations finds tasks that were overtaken while they waited: those who wait are
// served as they came.
func (l *evaluation) fifoViolations() string {
	type served struct {
		sent, began time.Duration
		called      bool
	}
	var all []served
	for _, t := range l.Evidence.Tasks {
		// One that still waits, or has left unserved, has been overtaken all the same.
		if w, waited := l.queueWaitOf(t); waited {
			all = append(all, served{w.from, w.to, len(l.callsByTask[t.ID]) > 0})
		}
	}
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.sent, b.sent) })
	overtaken := 0
	for i, s := range all {
		for _, later := range all[i+1:] {
			if later.sent > s.began {
				break // it came when this one did not wait any more
			}
			if later.called && later.sent > s.sent+2*l.tolerance && later.began+2*l.tolerance < s.began {
				overtaken++
				break
			}
		}
	}
	if overtaken > 1 && overtaken*50 > len(all) {
		return fmt.Sprintf("%d of %d tasks were overtaken while they waited: they are not served in the order in which they came", overtaken, len(all))
	}
	return ""
}

// callsAfterDeadline finds tasks that went to the endpoint after their deadline, which is
// the promised turnaround where a task names none: that work is lost on everybody.
func (l *evaluation) callsAfterDeadline() string {
	if l.Evidence.MaxQueueAge == 0 {
		return ""
	}
	n, worst := 0, time.Duration(0)
	for _, t := range l.Evidence.Tasks {
		calls := l.callsByTask[t.ID]
		if len(calls) == 0 || l.afterRollback(calls[0].Started) {
			continue
		}
		if waited := calls[0].Started - t.Sent; waited > l.Evidence.SLO+l.tolerance {
			n++
			worst = max(worst, waited)
		}
	}
	if n > 0 {
		return fmt.Sprintf("%d tasks went to the endpoint after their deadline, having waited for up to %.0f s of %.0f", n, worst.Seconds(), l.Evidence.SLO.Seconds())
	}
	return ""
}

// ageLimitIgnored finds refusals for the length of the queue while somebody in it had
// waited for too long already: age counts first.
func (l *evaluation) ageLimitIgnored() string {
	most := l.Evidence.MaxQueueAge
	if most == 0 {
		return ""
	}
	n, refused := 0, 0
	for _, t := range l.Evidence.Tasks {
		if t.Outcome == Refused {
			refused++
			n += btoi(t.Reason == reasonQueueDepth && l.oldestWaitAt(t.Sent) > most+2*l.tolerance)
		}
	}
	if n > 1 && n*50 > refused {
		return fmt.Sprintf("%d of %d refusals name the length of the queue while another had waited for more than %.0f s: the gate does not look at the age", n, refused, most.Seconds())
	}
	return ""
}
