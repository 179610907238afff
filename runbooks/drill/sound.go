package drill

import (
	"fmt"
	"strings"
	"time"

	"headgate/proxy/fault"
)

// unsound says what is wrong with the run that no expectation has to name: what
// holds of a gate that works, whatever the drill is about, and however busy its
// machine is. Each is a sentence that names the broken part.
func (l *look) unsound() []string {
	checks := []func(*look) string{
		(*look).strayCalls, (*look).refusedAndCalled, (*look).calledTwice, (*look).neverCalled, (*look).foreignAnswers,
		(*look).refusedTooEarly, (*look).reasons, (*look).unlikelyEnds, (*look).clearing, (*look).unheeded,
	}
	if l.live() { // of production only a part is seen, so that nothing can be said of its queue
		checks = []func(*look) string{(*look).foreignAnswers, (*look).reasons, (*look).unlikelyEnds, (*look).clearing}
	}
	return l.all(checks)
}

// untimely says what comes too late, or out of its turn. It is wrong of any gate that
// works, on a machine that lets it.
func (l *look) untimely() []string {
	checks := []func(*look) string{
		(*look).outOfOrder, (*look).calledTooLate, (*look).idleWorkers, (*look).heldBack, (*look).lostCapacity, (*look).begunLate,
		(*look).slowRefusals, (*look).overfull, (*look).leftWaiting, (*look).saidTooEarly, (*look).slowClearing, (*look).befellLate, (*look).ageOverlooked,
	}
	if l.live() {
		checks = []func(*look) string{(*look).heldBack, (*look).slowRefusals, (*look).slowClearing, (*look).befellLate}
	}
	return l.all(checks)
}

func (l *look) live() bool { return l.Run.Spec.Target == Live }

func (l *look) all(checks []func(*look) string) []string {
	var all []string
	for _, check := range checks {
		if what := check(l); what != "" {
			all = append(all, what)
		}
	}
	return all
}

func (l *look) strayCalls() string {
	known := map[int]bool{}
	for _, t := range l.Evidence.Tasks {
		known[t.ID] = true
	}
	n := 0
	for _, c := range l.Evidence.Calls {
		n += one(!known[c.Task])
	}
	if n > 0 {
		return fmt.Sprintf("%d calls of the endpoint belong to no task that was sent", n)
	}
	return ""
}

func (l *look) refusedAndCalled() string {
	n := 0
	for _, t := range l.Evidence.Tasks {
		n += one(t.End == Refused && len(l.calls[t.ID]) > 0)
	}
	if n > 0 {
		return fmt.Sprintf("%d refused tasks reached the endpoint: a refusal must cost it nothing", n)
	}
	return ""
}

func (l *look) calledTwice() string {
	for _, t := range l.Evidence.Tasks {
		if n := len(l.calls[t.ID]); n > 1 {
			return fmt.Sprintf("the endpoint was called %d times for task %d", n, t.ID)
		}
	}
	return ""
}

// neverCalled finds tasks that were served and that no call was made for.
func (l *look) neverCalled() string {
	n := 0
	for _, t := range l.Evidence.Tasks {
		n += one(t.End == Served && len(l.calls[t.ID]) == 0)
	}
	if n > 0 {
		return fmt.Sprintf("%d tasks were answered without a call of the endpoint", n)
	}
	return ""
}

func (l *look) foreignAnswers() string {
	for _, t := range l.Evidence.Tasks {
		c, ok := l.lastCall(t)
		if ok && t.End == Served && t.Sum != 0 && c.Sum != 0 && (t.Sum != c.Sum || t.Bytes != c.Bytes) {
			return fmt.Sprintf("task %d got another answer than the endpoint gave: %d bytes of %d", t.ID, t.Bytes, c.Bytes)
		}
	}
	return ""
}

// idleWorkers finds waiting beside free workers.
func (l *look) idleWorkers() string {
	limit := 2*l.slack + 4*time.Second
	fewest := l.Evidence.Workers
	b := l.busynessOf(l.longWaits())
	from, length := b.longest(l.Evidence.At, func(s busyStep) bool { return s.Waiting > 0 && s.InFlight < l.Evidence.Workers })
	if length <= limit {
		return ""
	}
	for t := from; t < from+length; t += time.Second {
		fewest = min(fewest, b.at(t).InFlight)
	}
	return fmt.Sprintf("tasks waited for %.0f s from %.0f s on while only %d of %d were in flight: permits do not come back, or are not given out",
		length.Seconds(), from.Seconds(), fewest, l.Evidence.Workers)
}

// heldBack finds answers that came to the client long after the endpoint was done.
func (l *look) heldBack() string {
	limit := 2*l.slack + 3*time.Second
	n, most := 0, time.Duration(0)
	for _, t := range l.Evidence.Tasks {
		c, ok := l.lastCall(t)
		if !ok || c.Open || t.End == Pending || t.End == TimedOut {
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
func (l *look) slowRefusals() string {
	limit := 2*l.slack + 3*time.Second
	n, refused := 0, 0
	for _, t := range l.Evidence.Tasks {
		if t.End == Refused && t.Reason != leftQueue {
			refused++
			n += one(t.Ended-t.Sent > limit)
		}
	}
	if n > 2 && n*10 > refused {
		return fmt.Sprintf("%d of %d refusals came more than %.0f s after their task", n, refused, limit.Seconds())
	}
	return ""
}

// overfull finds more waiting than the gate may let wait.
func (l *look) overfull() string {
	most := l.Evidence.MaxWaiting
	if most == 0 {
		return ""
	}
	b := l.busyness()
	from, length := b.longest(l.Evidence.At, func(s busyStep) bool { return s.Waiting > most+2 && !l.overfilled(s.At) })
	if length <= 3*l.slack {
		return ""
	}
	return fmt.Sprintf("%d tasks waited at %.0f s, of at most %d: the gate does not refuse when it should", b.at(from).Waiting, from.Seconds(), most)
}

// leftWaiting finds tasks that were let in although others had waited too long.
func (l *look) leftWaiting() string {
	most := l.Evidence.MaxQueueAge
	if most == 0 {
		return ""
	}
	n, worst := 0, time.Duration(0)
	for _, t := range l.Evidence.Tasks {
		if t.End == Unsent || t.End == Refused || l.overfilled(t.Sent) {
			continue
		}
		if age := l.oldestAt(t.Sent); age > most+2*l.slack {
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

// oldestAt is how long the one that waits longest had waited, and went on waiting
// for a moment.
func (l *look) oldestAt(at time.Duration) time.Duration {
	for _, w := range l.waits { // by their beginning: the first is the oldest
		if w.from >= at {
			break
		}
		if w.to > at+l.slack {
			return at - w.from
		}
	}
	return 0
}

// reasons finds refusals that do not say why.
func (l *look) reasons() string {
	n := 0
	for _, t := range l.Evidence.Tasks {
		n += one(t.End == Refused && t.Reason == "")
	}
	if n > 0 {
		return fmt.Sprintf("%d refusals do not say why", n)
	}
	return ""
}

// unlikelyEnds finds answers that were broken by a fault and were told to the
// client as something else: a refusal by the gate.
func (l *look) unlikelyEnds() string {
	for _, t := range l.Evidence.Tasks {
		// A twin does not go down while it is looked at.
		if t.End == Refused && t.Status != 429 && !(t.Status == 503 && l.live()) {
			return fmt.Sprintf("task %d was refused with status %d", t.ID, t.Status)
		}
	}
	return ""
}

// saidTooEarly finds resolved messages from before the trouble.
func (l *look) saidTooEarly() string {
	for _, m := range l.Evidence.Messages {
		if m.Level == levelPage && l.told(m) < l.spec.onset() {
			return "a page came before there was any trouble"
		}
	}
	return ""
}

// unheeded finds orders that were answered and not carried out.
func (l *look) unheeded() string { return strings.Join(l.Evidence.Unheeded, "; ") }

func (l *look) clearing() string {
	for _, c := range l.Clears {
		if !c.Confirmed || c.Held > 0 {
			return fmt.Sprintf("the faults did not clear: %d calls are still held", c.Held)
		}
	}
	return ""
}

// befellLate finds faults that befell calls when they were not in force any more. A
// runner that was kept from clearing them in time is no proof against them.
func (l *look) befellLate() string {
	for _, c := range l.Evidence.Calls {
		if c.Fault != "" && !l.inForce(c.Fault, c.Began) {
			return fmt.Sprintf("fault %s befell a call at %.0f s, when it was not in force: it did not clear", c.Fault, c.Began.Seconds())
		}
	}
	return ""
}

func (l *look) slowClearing() string {
	for _, c := range l.Clears {
		if c.Took > ClearLimit {
			return fmt.Sprintf("clearing the faults took %.1f s, of at most %.0f", c.Took.Seconds(), ClearLimit.Seconds())
		}
	}
	return ""
}

// inForce says whether a fault may befall a call that began at a time.
func (l *look) inForce(k fault.Kind, at time.Duration) bool {
	for _, i := range l.spec.Faults {
		if i.Kind == k && at >= i.From-l.slack && at <= i.From+i.For+l.slack+time.Duration(float64(ClearLimit)*l.speed) {
			return true
		}
	}
	return false
}

// ClearLimit is how long clearing faults may take, on the wall clock.
const ClearLimit = time.Second
