package drill

import (
	"fmt"
	"strings"
	"time"

	"headgate/proxy/fault"
)

// hardViolations says what is wrong with the run that no expectation has to name: what
// holds of a gate that works, whatever the drill is about, and however busy its
// machine is. Each is a sentence that names the broken part.
func (l *evaluation) hardViolations() []string {
	checks := []func(*evaluation) string{
		(*evaluation).callsWithoutTask, (*evaluation).callsForRefusedTasks, (*evaluation).duplicateCalls, (*evaluation).answersWithoutCall, (*evaluation).answerMismatch,
		(*evaluation).prematureRefusals, (*evaluation).refusalsWithoutReason, (*evaluation).unexpectedRefusalStatus, (*evaluation).unclearedFaults, (*evaluation).unappliedRequests,
	}
	if l.live() { // of production only a part is seen, so that nothing can be said of its queue
		checks = []func(*evaluation) string{(*evaluation).answerMismatch, (*evaluation).refusalsWithoutReason, (*evaluation).unexpectedRefusalStatus, (*evaluation).unclearedFaults}
	}
	return l.runChecks(checks)
}

// timingViolations says what comes too late, or out of its turn. It is wrong of any gate that
// works, on a machine that lets it.
func (l *evaluation) timingViolations() []string {
	checks := []func(*evaluation) string{
		(*evaluation).fifoViolations, (*evaluation).callsAfterDeadline, (*evaluation).idleWorkers, (*evaluation).delayedAnswers, (*evaluation).underusedWorkers, (*evaluation).delayedFirstBytes,
		(*evaluation).slowRefusals, (*evaluation).queueOverLimit, (*evaluation).admittedOverAge, (*evaluation).prematurePages, (*evaluation).slowClearing, (*evaluation).faultsAfterClear, (*evaluation).ageLimitIgnored,
	}
	if l.live() {
		checks = []func(*evaluation) string{(*evaluation).delayedAnswers, (*evaluation).slowRefusals, (*evaluation).slowClearing, (*evaluation).faultsAfterClear}
	}
	return l.runChecks(checks)
}

func (l *evaluation) live() bool { return l.Run.Spec.Target == Live }

func (l *evaluation) runChecks(checks []func(*evaluation) string) []string {
	var all []string
	for _, check := range checks {
		if what := check(l); what != "" {
			all = append(all, what)
		}
	}
	return all
}

func (l *evaluation) callsWithoutTask() string {
	known := map[int]bool{}
	for _, t := range l.Evidence.Tasks {
		known[t.ID] = true
	}
	n := 0
	for _, c := range l.Evidence.Calls {
		n += btoi(!known[c.Task])
	}
	if n > 0 {
		return fmt.Sprintf("%d calls of the endpoint belong to no task that was sent", n)
	}
	return ""
}

func (l *evaluation) callsForRefusedTasks() string {
	n := 0
	for _, t := range l.Evidence.Tasks {
		n += btoi(t.Outcome == Refused && len(l.callsByTask[t.ID]) > 0)
	}
	if n > 0 {
		return fmt.Sprintf("%d refused tasks reached the endpoint: a refusal must cost it nothing", n)
	}
	return ""
}

func (l *evaluation) duplicateCalls() string {
	for _, t := range l.Evidence.Tasks {
		if n := len(l.callsByTask[t.ID]); n > 1 {
			return fmt.Sprintf("the endpoint was called %d times for task %d", n, t.ID)
		}
	}
	return ""
}

// answersWithoutCall finds tasks that were served and that no call was made for.
func (l *evaluation) answersWithoutCall() string {
	n := 0
	for _, t := range l.Evidence.Tasks {
		n += btoi(t.Outcome == Served && len(l.callsByTask[t.ID]) == 0)
	}
	if n > 0 {
		return fmt.Sprintf("%d tasks were answered without a call of the endpoint", n)
	}
	return ""
}

func (l *evaluation) answerMismatch() string {
	for _, t := range l.Evidence.Tasks {
		c, ok := l.lastCall(t)
		if ok && t.Outcome == Served && t.Checksum != 0 && c.Checksum != 0 && (t.Checksum != c.Checksum || t.Bytes != c.Bytes) {
			return fmt.Sprintf("task %d got another answer than the endpoint gave: %d bytes of %d", t.ID, t.Bytes, c.Bytes)
		}
	}
	return ""
}

// idleWorkers finds waiting beside free workers.
func (l *evaluation) idleWorkers() string {
	limit := 2*l.tolerance + 4*time.Second
	fewest := l.Evidence.Workers
	b := l.gateOccupancyOf(l.longWaits())
	from, length := b.longest(l.Evidence.At, func(s occupancyStep) bool { return s.Waiting > 0 && s.InFlight < l.Evidence.Workers })
	if length <= limit {
		return ""
	}
	for t := from; t < from+length; t += time.Second {
		fewest = min(fewest, b.at(t).InFlight)
	}
	return fmt.Sprintf("tasks waited for %.0f s from %.0f s on while only %d of %d were in flight: permits do not come back, or are not given out",
		length.Seconds(), from.Seconds(), fewest, l.Evidence.Workers)
}

// delayedAnswers finds answers that came to the client long after the endpoint was done.
func (l *evaluation) delayedAnswers() string {
	limit := 2*l.tolerance + 3*time.Second
	n, most := 0, time.Duration(0)
	for _, t := range l.Evidence.Tasks {
		c, ok := l.lastCall(t)
		if !ok || c.Open || t.Outcome == Pending || t.Outcome == TimedOut {
			continue
		}
		if by := t.Ended - c.Ended; by > limit {
			n++
			most = max(most, by)
		}
	}
	if n > 2 && n*50 > len(l.Evidence.Calls) || most > 10*limit {
		return fmt.Sprintf("%d answers reached their client up to %.0f s after the endpoint was done with them", n, most.Seconds())
	}
	return ""
}

// slowRefusals finds refusals that come late: whoever is refused has to know at once.
func (l *evaluation) slowRefusals() string {
	limit := 2*l.tolerance + 3*time.Second
	n, refused := 0, 0
	for _, t := range l.Evidence.Tasks {
		if t.Outcome == Refused && t.Reason != reasonDeadlinePassed {
			refused++
			n += btoi(t.Ended-t.Sent > limit)
		}
	}
	if n > 2 && n*10 > refused {
		return fmt.Sprintf("%d of %d refusals came more than %.0f s after their task", n, refused, limit.Seconds())
	}
	return ""
}

// queueOverLimit finds more waiting than the gate may let wait.
func (l *evaluation) queueOverLimit() string {
	most := l.Evidence.MaxWaiting
	if most == 0 {
		return ""
	}
	b := l.gateOccupancy()
	from, length := b.longest(l.Evidence.At, func(s occupancyStep) bool { return s.Waiting > most+2 && !l.afterRollback(s.At) })
	if length <= 3*l.tolerance {
		return ""
	}
	return fmt.Sprintf("%d tasks waited at %.0f s, of at most %d: the gate does not refuse when it should", b.at(from).Waiting, from.Seconds(), most)
}

// admittedOverAge finds tasks that were let in although others had waited too long.
func (l *evaluation) admittedOverAge() string {
	most := l.Evidence.MaxQueueAge
	if most == 0 {
		return ""
	}
	n, worst := 0, time.Duration(0)
	for _, t := range l.Evidence.Tasks {
		if t.Outcome == Unsent || t.Outcome == Refused || l.afterRollback(t.Sent) {
			continue
		}
		if age := l.oldestWaitAt(t.Sent); age > most+2*l.tolerance {
			n++
			worst = max(worst, age)
		}
	}
	if n > 0 {
		return fmt.Sprintf("%d tasks were let in while another had waited for up to %.0f s, of at most %.0f: the gate does not refuse when it should",
			n, worst.Seconds(), most.Seconds())
	}
	return ""
}

// oldestWaitAt is how long the one that waits longest had waited, and went on waiting
// for a moment.
func (l *evaluation) oldestWaitAt(at time.Duration) time.Duration {
	for _, w := range l.waits { // by their beginning: the first is the oldest
		if w.from >= at {
			break
		}
		if w.to > at+l.tolerance {
			return at - w.from
		}
	}
	return 0
}

// refusalsWithoutReason finds refusals that do not say why.
func (l *evaluation) refusalsWithoutReason() string {
	n := 0
	for _, t := range l.Evidence.Tasks {
		n += btoi(t.Outcome == Refused && t.Reason == "")
	}
	if n > 0 {
		return fmt.Sprintf("%d refusals do not say why", n)
	}
	return ""
}

// unexpectedRefusalStatus finds answers that were broken by a fault and were told to the
// client as something else: a refusal by the gate.
func (l *evaluation) unexpectedRefusalStatus() string {
	for _, t := range l.Evidence.Tasks {
		// A twin does not go down while it is looked at.
		if t.Outcome == Refused && t.Status != 429 && !(t.Status == 503 && l.live()) {
			return fmt.Sprintf("task %d was refused with status %d", t.ID, t.Status)
		}
	}
	return ""
}

// prematurePages finds resolved messages from before the trouble.
func (l *evaluation) prematurePages() string {
	for _, m := range l.Evidence.Messages {
		if m.Level == levelPage && l.acceptedAt(m) < l.spec.disturbanceStart() {
			return "a page came before there was any trouble"
		}
	}
	return ""
}

// unappliedRequests finds orders that were answered and not carried out.
func (l *evaluation) unappliedRequests() string {
	return strings.Join(l.Evidence.UnappliedRequests, "; ")
}

func (l *evaluation) unclearedFaults() string {
	for _, c := range l.ClearResults {
		if !c.Confirmed || c.Held > 0 {
			return fmt.Sprintf("the faults did not clear: %d calls are still held", c.Held)
		}
	}
	return ""
}

// faultsAfterClear finds faults that befell calls when they were not in force any more. A
// runner that was kept from clearing them in time is no proof against them.
func (l *evaluation) faultsAfterClear() string {
	for _, c := range l.Evidence.Calls {
		if c.Fault != "" && !l.inForce(c.Fault, c.Started) {
			return fmt.Sprintf("fault %s befell a call at %.0f s, when it was not in force: it did not clear", c.Fault, c.Started.Seconds())
		}
	}
	return ""
}

func (l *evaluation) slowClearing() string {
	for _, c := range l.ClearResults {
		if c.Took > ClearLimit {
			return fmt.Sprintf("clearing the faults took %.1f s, of at most %.0f", c.Took.Seconds(), ClearLimit.Seconds())
		}
	}
	return ""
}

// inForce says whether a fault may befall a call that began at a time.
func (l *evaluation) inForce(k fault.Kind, at time.Duration) bool {
	for _, i := range l.spec.Faults {
		if i.Kind == k && at >= i.From-l.tolerance && at <= i.From+i.For+l.tolerance+time.Duration(float64(ClearLimit)*l.speed) {
			return true
		}
	}
	return false
}

// ClearLimit is how long clearing faults may take, on the wall clock.
const ClearLimit = time.Second
