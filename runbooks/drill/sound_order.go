package drill

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// refusedTooEarly finds refusals before they are due. What is seen from outside
// waits no shorter than what the gate sees, so that one that is not due from here is
// not due there.
func (l *look) refusedTooEarly() string {
	b := l.busyness()
	free, early, refused, example := 0, 0, 0, Task{}
	for _, t := range l.Evidence.Tasks {
		if t.End != Refused || len(l.calls[t.ID]) > 0 || t.Reason == leftQueue {
			continue
		}
		refused++
		switch {
		case l.workerFree(b, t):
			free++
			example = t
		case l.roomLeft(b, t):
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
func (l *look) workerFree(b busy, t Task) bool {
	return b.throughout(t.Sent-l.slack, t.Ended+l.slack, func(s busyStep) bool {
		return s.InFlight < l.Evidence.Workers && s.Waiting == 0
	})
}

// roomLeft says whether the queue was well below both limits all the time around a
// refusal.
func (l *look) roomLeft(b busy, t Task) bool {
	depth, age := l.Evidence.MaxWaiting, l.Evidence.MaxQueueAge
	if depth == 0 || age == 0 {
		return false
	}
	short := b.throughout(t.Sent-l.slack, t.Ended+l.slack, func(s busyStep) bool { return s.Waiting < depth-depth/8-1 })
	return short && l.oldestAround(t.Sent-l.slack, t.Ended+l.slack) < age-l.slack
}

// oldestAround is the longest that anybody had waited at some time of a span.
func (l *look) oldestAround(from, to time.Duration) time.Duration {
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

// outOfOrder finds tasks that were overtaken while they waited: those who wait are
// served as they came.
func (l *look) outOfOrder() string {
	type served struct{ sent, began time.Duration }
	var all []served
	for _, t := range l.Evidence.Tasks {
		if calls := l.calls[t.ID]; len(calls) > 0 {
			all = append(all, served{t.Sent, calls[0].Began})
		}
	}
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.sent, b.sent) })
	overtaken := 0
	for i, s := range all {
		for _, later := range all[i+1:] {
			if later.sent > s.began {
				break // it came when this one did not wait any more
			}
			if later.sent > s.sent+2*l.slack && later.began+2*l.slack < s.began {
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
