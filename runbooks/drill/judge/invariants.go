package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

func (e *Evaluation) callsWithoutTask() string {
	n := count(e.Evidence.Calls, func(c drill.Call) bool {
		_, known := e.tasks[c.Task]
		return !known
	})
	return reasonIf(n > 0, "%d calls of the endpoint belong to no task that was sent", n)
}

func (e *Evaluation) callsForRefusedTasks() string {
	n := count(e.Evidence.Tasks, func(t drill.Task) bool {
		return t.Outcome == drill.Refused && len(e.callsByTask[t.ID]) > 0
	})
	return reasonIf(n > 0, "%d refused tasks reached the endpoint: a refusal must cost it nothing", n)
}

func (e *Evaluation) duplicateCalls() string {
	for _, t := range e.Evidence.Tasks {
		if n := len(e.callsByTask[t.ID]); n > 1 {
			return fmt.Sprintf("the endpoint was called %d times for task %d", n, t.ID)
		}
	}
	return ""
}

func (e *Evaluation) answersWithoutCall() string {
	n := count(e.Evidence.Tasks, func(t drill.Task) bool {
		return t.Outcome == drill.Served && len(e.callsByTask[t.ID]) == 0
	})
	return reasonIf(n > 0, "%d tasks were answered without a call of the endpoint", n)
}

func (e *Evaluation) answerMismatch() string {
	for _, t := range e.Evidence.Tasks {
		if c, ok := e.lastCall(t); ok && t.Outcome == drill.Served && answerDiffers(t, c) {
			return fmt.Sprintf("task %d got another answer than the endpoint gave: %d bytes of %d", t.ID, t.Bytes, c.Bytes)
		}
	}
	return ""
}

// answerDiffers says whether a client got another body than the gate got from the endpoint, if both are known.
func answerDiffers(t drill.Task, c drill.Call) bool {
	return t.Checksum != 0 && c.Checksum != 0 && (t.Checksum != c.Checksum || t.Bytes != c.Bytes)
}

// taskDelay is a delay of a task; false: the task has none.
type taskDelay func(drill.Task) (d time.Duration, ok bool)

// exceeding counts the tasks that have a delay, and those of them whose delay exceeds a limit, and returns the longest.
func (e *Evaluation) exceeding(limit time.Duration, delay taskDelay) (n, all int, longest time.Duration) {
	for _, t := range e.Evidence.Tasks {
		d, ok := delay(t)
		if !ok {
			continue
		}
		all++
		if d > limit {
			n++
			longest = max(longest, d)
		}
	}
	return n, all, longest
}

// idleWorkers finds tasks that waited beside free workers.
func (e *Evaluation) idleWorkers() string {
	limit := 2*e.tolerance + 4*time.Second
	fewest := e.Evidence.Workers
	b := e.gateOccupancyOf(e.longWaits())
	from, length := b.longest(e.Evidence.At, func(s occupancyStep) bool {
		return s.Waiting > 0 && s.InFlight < e.Evidence.Workers
	})
	if length <= limit {
		return ""
	}
	for t := from; t < from+length; t += time.Second {
		fewest = min(fewest, b.at(t).InFlight)
	}
	return fmt.Sprintf("tasks waited for %.0f s from %.0f s on while only %d of %d were in flight: "+
		"permits are not returned, or not granted",
		length.Seconds(), from.Seconds(), fewest, e.Evidence.Workers)
}

// delayedAnswers finds answers that reached the client long after the endpoint was done.
func (e *Evaluation) delayedAnswers() string {
	limit := 2*e.tolerance + 3*time.Second
	n, _, most := e.exceeding(limit, func(t drill.Task) (time.Duration, bool) {
		c, ok := e.lastCall(t)
		return t.Ended - c.Ended, ok && !c.Open && t.Outcome != drill.Pending && t.Outcome != drill.TimedOut
	})
	return reasonIf(n > 2 && n*50 > len(e.Evidence.Calls) || most > 10*limit,
		"%d answers reached their client up to %.0f s after the endpoint was done with them", n, most.Seconds())
}

// slowRefusals finds late refusals: a refusal must be immediate.
func (e *Evaluation) slowRefusals() string {
	limit := 2*e.tolerance + 3*time.Second
	n, refused, _ := e.exceeding(limit, func(t drill.Task) (time.Duration, bool) {
		return t.Ended - t.Sent, t.Outcome == drill.Refused && t.Reason != reasonDeadlinePassed
	})
	return reasonIf(n > 2 && n*10 > refused,
		"%d of %d refusals came more than %.0f s after their task", n, refused, limit.Seconds())
}

// queueOverLimit finds queues longer than the limit.
func (e *Evaluation) queueOverLimit() string {
	most := e.Evidence.MaxWaiting
	if most == 0 {
		return ""
	}
	b := e.gateOccupancy()
	from, length := b.longest(e.Evidence.At, func(s occupancyStep) bool {
		return s.Waiting > most+2 && !e.afterRollback(s.At)
	})
	return reasonIf(length > 3*e.tolerance,
		"%d tasks waited at %.0f s, of at most %d: the gate does not refuse when it should",
		b.at(from).Waiting, from.Seconds(), most)
}

// admittedOverAge finds tasks that were admitted although others had waited too long.
func (e *Evaluation) admittedOverAge() string {
	most := e.Evidence.MaxQueueAge
	if most == 0 {
		return ""
	}
	n, _, worst := e.exceeding(most+2*e.tolerance, func(t drill.Task) (time.Duration, bool) {
		return e.oldestWaitAt(t.Sent), t.Outcome != drill.Unsent && t.Outcome != drill.Refused && !e.afterRollback(t.Sent)
	})
	return reasonIf(n > 0,
		"%d tasks were admitted while another had waited for up to %.0f s, of at most %.0f: "+
			"the gate does not refuse when it should",
		n, worst.Seconds(), most.Seconds())
}

// oldestWaitAt is how long the oldest queued task had waited, of those that went on waiting for a moment.
func (e *Evaluation) oldestWaitAt(at time.Duration) time.Duration {
	for _, w := range e.waits { // by their beginning: the first is the oldest
		if w.from >= at {
			break
		}
		if w.to > at+e.tolerance {
			return at - w.from
		}
	}
	return 0
}

func (e *Evaluation) refusalsWithoutReason() string {
	n := count(e.Evidence.Tasks, func(t drill.Task) bool { return t.Outcome == drill.Refused && t.Reason == "" })
	return reasonIf(n > 0, "%d refusals do not say why", n)
}

// unexpectedRefusalStatus finds refusals with another status than 429, such as errors that are reported as refusals.
func (e *Evaluation) unexpectedRefusalStatus() string {
	for _, t := range e.Evidence.Tasks {
		// A twin does not shut down while it is observed.
		if t.Outcome == drill.Refused && t.Status != 429 && !(t.Status == 503 && e.live()) {
			return fmt.Sprintf("task %d was refused with status %d", t.ID, t.Status)
		}
	}
	return ""
}

// prematurePages finds pages from before the disturbance.
func (e *Evaluation) prematurePages() string {
	early := func(m drill.Message) bool {
		return m.Level == levelPage && e.acceptedAt(m) < e.spec.DisturbanceStart()
	}
	return reasonIf(slices.ContainsFunc(e.Evidence.Messages, early), "a page arrived before the disturbance")
}

// unappliedRequests finds requests that were accepted and not applied.
func (e *Evaluation) unappliedRequests() string {
	return strings.Join(e.Evidence.UnappliedRequests, "; ")
}

func (e *Evaluation) unclearedFaults() string {
	for _, c := range e.ClearResults {
		if err := c.Err(); err != nil {
			return fmt.Sprintf("the faults did not clear: %v", err)
		}
	}
	return ""
}

// faultsAfterClear finds faults that hit calls when they were no longer in force. A busy machine may keep the runner
// from clearing them in time.
func (e *Evaluation) faultsAfterClear() string {
	for _, c := range e.Evidence.Calls {
		if c.Fault != "" && !e.inForce(c.Fault, c.Started) {
			return fmt.Sprintf("fault %s hit a call at %.0f s, when it was not in force: it did not clear",
				c.Fault, c.Started.Seconds())
		}
	}
	return ""
}

func (e *Evaluation) slowClearing() string {
	var longest time.Duration
	for _, c := range e.ClearResults {
		longest = max(longest, c.Took)
	}
	return reasonIf(longest > drill.ClearLimit, "clearing the faults took %.1f s, of at most %.0f",
		longest.Seconds(), drill.ClearLimit.Seconds())
}

// inForce says whether a fault may hit a call that began at a time.
func (e *Evaluation) inForce(k fault.Kind, at time.Duration) bool {
	after := e.tolerance + time.Duration(float64(drill.ClearLimit)*e.speed)
	return slices.ContainsFunc(e.spec.Faults, func(i drill.Injection) bool {
		return i.Kind == k && at >= i.From-e.tolerance && at <= i.From+i.For+after
	})
}

// prematureRefusals finds refusals that the policy does not explain. Waits as seen from outside are never shorter
// than as the gate sees them, so that a refusal that is not due from outside is not due inside.
func (e *Evaluation) prematureRefusals() string {
	b := e.gateOccupancy()
	free, early, refused, example := 0, 0, 0, drill.Task{}
	for _, t := range e.Evidence.Tasks {
		if t.Outcome != drill.Refused || len(e.callsByTask[t.ID]) > 0 || t.Reason == reasonDeadlinePassed {
			continue
		}
		refused++
		switch {
		case e.workerFree(b, t):
			free++
			example = t
		case e.queueBelowLimits(b, t):
			early++
			example = t
		}
	}
	switch {
	case free > 0:
		return fmt.Sprintf("%d tasks were refused although a worker was free and no task waited (the last at %.0f s): "+
			"the gate refuses too early",
			free, example.Due.Seconds())
	case early > 1 && early*50 > refused: // one or two may be a matter of milliseconds
		return fmt.Sprintf("%d tasks were refused although the queue was neither long nor old (the last at %.0f s): "+
			"the gate refuses too early",
			early, example.Due.Seconds())
	}
	return ""
}

// workerFree says whether a worker was free and no task waited throughout a refusal.
func (e *Evaluation) workerFree(b occupancy, t drill.Task) bool {
	return b.throughout(t.Sent-e.tolerance, t.Ended+e.tolerance, func(s occupancyStep) bool {
		return s.InFlight < e.Evidence.Workers && s.Waiting == 0
	})
}

// Reasons of the threshold policy.
const (
	reasonQueueDepth = "queue_depth"
	reasonQueueAge   = "queue_age"
)

// queueBelowLimits says whether the queue was well below the limit that a refusal names, or below both, throughout.
func (e *Evaluation) queueBelowLimits(b occupancy, t drill.Task) bool {
	depth, age := e.Evidence.MaxWaiting, e.Evidence.MaxQueueAge
	if depth == 0 || age == 0 {
		return false
	}
	from, to := t.Sent-e.tolerance, t.Ended+e.tolerance
	short := b.throughout(from, to, func(s occupancyStep) bool { return s.Waiting < depth-depth/8-1 })
	young := e.longestWaitDuring(from, to) < age-e.tolerance
	switch t.Reason { // the reason given must be true
	case reasonQueueDepth:
		return short
	case reasonQueueAge:
		return young
	}
	return short && young
}

// longestWaitDuring is the longest that any task had waited at some time of a span.
func (e *Evaluation) longestWaitDuring(from, to time.Duration) time.Duration {
	var most time.Duration
	for _, w := range e.waits { // by their beginning
		if w.from >= to {
			break
		}
		if w.to >= from {
			most = max(most, min(w.to, to)-w.from)
		}
	}
	return most
}

// fifoViolations finds tasks that were overtaken while they waited: queued tasks are served in order of arrival.
func (e *Evaluation) fifoViolations() string {
	type served struct {
		sent, began time.Duration
		called      bool
	}
	var all []served
	for _, t := range e.Evidence.Tasks {
		// One that still waits, or has left unserved, has been overtaken all the same.
		if w, waited := e.queueWaitOf(t); waited {
			all = append(all, served{w.from, w.to, len(e.callsByTask[t.ID]) > 0})
		}
	}
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.sent, b.sent) })
	overtaken := 0
	for i, s := range all {
		for _, later := range all[i+1:] {
			if later.sent > s.began {
				break // it arrived when this one did not wait any more
			}
			if later.called && later.sent > s.sent+2*e.tolerance && later.began+2*e.tolerance < s.began {
				overtaken++
				break
			}
		}
	}
	return reasonIf(overtaken > 1 && overtaken*50 > len(all),
		"%d of %d tasks were overtaken while they waited: they are not served in order of arrival",
		overtaken, len(all))
}

// callsAfterDeadline finds tasks that went to the endpoint after their deadline, which is the SLO's turnaround for
// tasks without one: such work is wasted.
func (e *Evaluation) callsAfterDeadline() string {
	if e.Evidence.MaxQueueAge == 0 {
		return ""
	}
	n, _, worst := e.exceeding(e.Evidence.SLO+e.tolerance, func(t drill.Task) (time.Duration, bool) {
		calls := e.callsByTask[t.ID]
		if len(calls) == 0 {
			return 0, false
		}
		return calls[0].Started - t.Sent, !e.afterRollback(calls[0].Started)
	})
	return reasonIf(n > 0,
		"%d tasks went to the endpoint after their deadline, having waited for up to %.0f s of %.0f",
		n, worst.Seconds(), e.Evidence.SLO.Seconds())
}

// ageLimitIgnored finds refusals for the length of the queue while a task in it had waited for too long already: the
// policy checks the age first.
func (e *Evaluation) ageLimitIgnored() string {
	most := e.Evidence.MaxQueueAge
	if most == 0 {
		return ""
	}
	refused := count(e.Evidence.Tasks, func(t drill.Task) bool { return t.Outcome == drill.Refused })
	n := count(e.Evidence.Tasks, func(t drill.Task) bool {
		return t.Outcome == drill.Refused && t.Reason == reasonQueueDepth && e.oldestWaitAt(t.Sent) > most+2*e.tolerance
	})
	return reasonIf(n > 1 && n*50 > refused,
		"%d of %d refusals name the length of the queue while another had waited for more than %.0f s: "+
			"the gate ignores the queue age", n, refused, most.Seconds())
}

// delayedFirstBytes finds answers that began at their client long after the gate had their beginning: streams must
// not be buffered.
func (e *Evaluation) delayedFirstBytes() string {
	limit := 2*e.tolerance + 3*time.Second
	n, all, most := e.exceeding(limit, func(t drill.Task) (time.Duration, bool) {
		c, ok := e.lastCall(t)
		return t.FirstByte - c.FirstByte, ok && c.FirstByte != 0 && t.FirstByte != 0 && c.Fault == ""
	})
	// A machine that is busy for a moment delays a few.
	return reasonIf(n > 2 && n*20 > all,
		"%d of %d answers began at their client up to %.0f s after the endpoint had begun them: they are not streamed",
		n, all, most.Seconds())
}

const (
	longWait       = 5 * time.Second       // a task that waits longer is queued, not delayed by a busy machine
	minQueuedTime  = 20 * time.Second      // of a queue, in all, to judge the use of workers by
	permitHandover = 50 * time.Millisecond // that passing on a permit may take, on the wall clock
	maxIdleShare   = 0.2                   // of the workers' time, besides
)

// underusedWorkers finds permits that are kept for a while after each call, so that a part of the workers is never used
// although no task waits beside free workers for long.
func (e *Evaluation) underusedWorkers() string {
	if len(e.Evidence.Calls) == 0 || e.Evidence.Workers == 0 {
		return ""
	}
	var took time.Duration
	for _, c := range e.Evidence.Calls {
		if !c.Open {
			took += c.Ended - c.Started
		}
	}
	mean := max(took/time.Duration(len(e.Evidence.Calls)), time.Second)
	waited, used := e.gateOccupancyOf(e.longWaits()).meanWhileWaiting(e.Evidence.At)
	idle := 1 - used/float64(e.Evidence.Workers)
	if may := maxIdleShare + float64(permitHandover)*e.speed/float64(mean); waited < minQueuedTime || idle <= may {
		return ""
	}
	return fmt.Sprintf("while there was a queue, for %.0f s in all, %.1f of %d were in flight: "+
		"permits are not returned at once, or not granted",
		waited.Seconds(), used, e.Evidence.Workers)
}

// longWaits are the waits that a busy machine does not explain.
func (e *Evaluation) longWaits() []queueWait {
	return filter(e.waits, func(w queueWait) bool { return w.to-w.from > longWait+2*e.tolerance })
}
