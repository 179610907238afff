package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

func (e *Evaluation) telemetryGap() string {
	return reasonIf(e.Evidence.StaleReason != "", "not all was seen: %s", e.Evidence.StaleReason)
}

// rateNotKept says whether the load was what it should be.
func (e *Evaluation) rateNotKept() string {
	sent := count(e.Evidence.Tasks, func(t drill.Task) bool { return t.Outcome != drill.Unsent })
	switch {
	case !e.Evidence.KeptRate && e.Evidence.RateNote != "":
		return "the generator did not keep its rate: " + e.Evidence.RateNote
	case !e.Evidence.KeptRate:
		return "the generator did not keep its rate"
	case sent < e.Evidence.Planned-max(3, e.Evidence.Planned/50):
		return fmt.Sprintf("the generator sent %d of %d tasks", sent, e.Evidence.Planned)
	}
	return ""
}

func (e *Evaluation) tooFewSamples() string {
	n := len(e.scenarioTasks())
	return reasonIf(n < minSamples, "only %d tasks were sent, and %d are needed to judge by", n, minSamples)
}

// explainedByChance says whether got arrivals may come of want: five standard deviations are not chance.
func explainedByChance(got, want float64) bool { return math.Abs(got-want) <= 5*math.Sqrt(want)+2 }

// burstMismatch says whether the load rose when it should.
func (e *Evaluation) burstMismatch() string {
	for _, b := range e.spec.Arrivals.Bursts {
		want := e.spec.Arrivals.Rate * b.Multiple * (b.To - b.From).Seconds()
		got := float64(len(e.tasksDue(b.From, b.To)))
		if !explainedByChance(got, want) {
			return fmt.Sprintf("the burst from %s was not as specified: %.0f tasks, of about %.0f",
				format.Duration(b.From), got, want)
		}
	}
	return ""
}

// loadMismatch says whether as many tasks were sent in all as specified.
func (e *Evaluation) loadMismatch() string {
	want := e.spec.ExpectedTasks(0)
	got := float64(len(e.tasksDue(-e.spec.Baseline, e.spec.Duration)))
	return reasonIf(want > 0 && !explainedByChance(got, want),
		"the load was not as specified: %.0f tasks, of about %.0f", got, want)
}

// endpointOverloaded says whether calls waited at the endpoint, so that the run measures the endpoint, not the gate.
func (e *Evaluation) endpointOverloaded() string {
	if _, lost := e.stepResult(drill.StepLoseSlots); lost {
		return ""
	}
	n, waited := 0, 0
	for _, c := range e.Evidence.Calls {
		n += btoi(c.Reached)
		waited += btoi(c.Reached && c.SlotWait > 2*e.tolerance)
	}
	return reasonIf(waited > 2 && waited*20 > n, "the endpoint was overloaded: %d of %d calls waited there", waited, n)
}

// serviceTimeMismatch says whether the endpoint took the specified time: one that answers at once builds no queue.
func (e *Evaluation) serviceTimeMismatch() string {
	if e.Evidence.ServiceMax == 0 {
		return ""
	}
	n, off, sum := 0, 0, time.Duration(0)
	for _, c := range e.Evidence.Calls {
		if !c.Reached || c.Working || !c.Complete || c.Fault != "" {
			continue
		}
		took := c.Finished - c.Arrived - c.SlotWait
		n, sum = n+1, sum+took
		off += btoi(took < e.Evidence.ServiceMin-e.tolerance || took > e.Evidence.ServiceMax+2*e.tolerance)
	}
	if n == 0 || off*10 <= n && e.plausibleMean(sum/time.Duration(n), n) {
		return ""
	}
	return fmt.Sprintf("the endpoint's service time is wrong: calls took %.1f s on average, and should take %s to %s",
		sum.Seconds()/float64(n), format.Duration(e.Evidence.ServiceMin),
		format.Duration(e.Evidence.ServiceMax))
}

// plausibleMean says whether n calls may take this long on average: five standard deviations are not chance, and the
// standard deviation is at most half the distance between the bounds.
func (e *Evaluation) plausibleMean(mean time.Duration, n int) bool {
	if e.Evidence.ServiceMean == 0 {
		return true
	}
	deviation := float64(e.Evidence.ServiceMax-e.Evidence.ServiceMin) / 2 / math.Sqrt(float64(n))
	return math.Abs(float64(mean-e.Evidence.ServiceMean)) <= 5*deviation+float64(e.tolerance)
}

// failedSteps says whether the steps did what they should, where that can be seen.
func (e *Evaluation) failedSteps() string {
	for _, t := range e.Steps {
		still := e.slotWaitsAfter(t.RevertedAt + e.tolerance)
		switch {
		case t.Err != "":
			return fmt.Sprintf("step %s at %s did not work: %s", t.Step.Kind, format.Duration(t.Step.At), t.Err)
		case t.Step.Kind == drill.StepLockRecord && e.recordNotLocked(t) != "":
			return e.recordNotLocked(t)
		case t.Step.Kind == drill.StepLoseSlots && t.Reverted && still > 2:
			return fmt.Sprintf("the endpoint did not get its slots back: %d calls waited there afterwards", still)
		case t.Step.Kind == drill.StepLoseSlots && e.slotWaitsAfter(t.Requested) == 0:
			return "the endpoint lost no slots: no call waited there"
		}
	}
	return reasonIf(len(e.Steps) < len(e.spec.Steps) && e.Complete,
		"%d of %d steps were taken", len(e.Steps), len(e.spec.Steps))
}

// recordNotLocked says why the record cannot be assumed to have been locked; empty: it was.
func (e *Evaluation) recordNotLocked(t StepResult) string {
	until := e.Evidence.At
	if t.Reverted {
		until = t.RevertedAt - e.tolerance
	}
	tried := 0
	for _, p := range e.Evidence.WriteProbes {
		if p.At < t.Requested || p.At > until {
			continue
		}
		tried++
		if p.Writable && p.At > t.Completed {
			return fmt.Sprintf("the record was not locked: it could be written at %.0f s", p.At.Seconds())
		}
	}
	return reasonIf(tried == 0, "no write to the record was attempted while it should have been locked")
}

// slotWaitsAfter counts calls that reached the endpoint from a time on and had to wait there.
func (e *Evaluation) slotWaitsAfter(at time.Duration) int {
	return count(e.Evidence.Calls, func(c drill.Call) bool {
		return c.Reached && c.Arrived >= at && c.SlotWait > e.tolerance
	})
}

// unconfirmedFaults names the faults whose effect was not seen.
func (e *Evaluation) unconfirmedFaults() string {
	var all []string
	for _, i := range e.spec.Faults {
		if what := e.unconfirmedFault(i); what != "" {
			all = append(all, "injection not confirmed: "+what)
		}
	}
	return strings.Join(all, "; ")
}

func (e *Evaluation) unconfirmedSlackFault() string {
	return reasonIf(len(e.spec.Slack) > 0 && e.Evidence.FaultHits[drill.TargetSlack] == 0,
		"injection not confirmed: no fault hit a message on its way to Slack")
}

// unconfirmedFault says why the effect of a fault is not certain; empty: it is.
func (e *Evaluation) unconfirmedFault(i drill.Injection) string {
	var hit []drill.Call
	all := 0
	for _, c := range e.Evidence.Calls {
		if c.Started < i.From+e.tolerance || c.Started >= i.From+i.For-e.tolerance {
			continue
		}
		all++
		if c.Fault == i.Kind {
			hit = append(hit, c)
		}
	}
	want := i.Share * float64(all)
	switch {
	case all == 0:
		return fmt.Sprintf("no call was made while fault %s was in force", i.Kind)
	case len(hit) == 0:
		return fmt.Sprintf("fault %s hit none of %d calls", i.Kind, all)
	case !e.live() && math.Abs(float64(len(hit))-want) > 2+4*math.Sqrt(want*(1-i.Share)):
		return fmt.Sprintf("fault %s hit %d of %d calls, and should hit about %.0f", i.Kind, len(hit), all, want)
	}
	return e.missingEffect(i, hit)
}

// missingEffect checks the effect of a fault on the calls that it hit.
func (e *Evaluation) missingEffect(i drill.Injection, hit []drill.Call) string {
	seen, without := 0, 0
	for _, c := range hit {
		works, can := e.faultWorked(i, c)
		seen += btoi(can)
		without += btoi(can && !works)
	}
	switch {
	case seen == 0:
		return fmt.Sprintf("no call that fault %s hit was observed to its end", i.Kind)
	case without*5 > seen:
		return fmt.Sprintf("%s: %d of %d calls that fault %s hit were unaffected",
			missingEffectText(i.Kind), without, seen, i.Kind)
	}
	return ""
}

func missingEffectText(k fault.Kind) string {
	switch k {
	case fault.Latency, fault.Drip, fault.Hang:
		return "the endpoint did not slow down"
	case fault.Truncate, fault.Malformed:
		return "the answers did not break"
	}
	return "the endpoint did not fail"
}

// faultWorked says whether a fault had its effect on a call, and whether that can be known.
func (e *Evaluation) faultWorked(i drill.Injection, c drill.Call) (works, can bool) {
	over := i.From + i.For - e.tolerance // from then on it may have been cut short
	switch i.Kind {
	case fault.Latency:
		least := i.Delay - i.Jitter - e.tolerance/2
		if !c.Reached || c.Started+i.Delay+i.Jitter > over {
			return false, false
		}
		return c.Arrived-c.Started >= min(least, i.Delay/2), true
	case fault.Drip:
		return c.Ended-c.Started > c.Finished-c.Arrived+i.Delay/2, c.Reached && !c.Open && c.Ended < over
	case fault.Hang:
		return c.Open || c.Ended-c.Started >= min(5*time.Second, over-c.Started), c.Started < over
	case fault.Status:
		return c.Status == i.Code, !c.Open
	case fault.Reset, fault.Refuse:
		return c.Status == 0, !c.Open
	}
	t, ok := e.tasks[c.Task]
	return t.Outcome != drill.Served, ok && t.Outcome != drill.Pending
}

// maxQuote bounds what a reason quotes of a message.
const maxQuote = 120

// steadyDuration is how long the system has to be healthy before it counts as steady, scenario time.
const steadyDuration = 30 * time.Second

// UnsteadyBaseline says why the baseline shows no steady state; empty: it does. tooFewSamples says that too few
// tasks had ended to decide.
func (e *Evaluation) UnsteadyBaseline() (reason string, tooFewSamples bool) {
	tasks := e.tasksDue(-e.spec.Baseline, 0)
	ended := len(tasks) - e.countPending(tasks)
	if ended < 3 {
		return fmt.Sprintf("only %d of %d tasks had ended by the end of the baseline", ended, len(tasks)), true
	}
	if why := e.unhealthy(tasks); why != "" {
		return why, false
	}
	for _, m := range e.Evidence.Messages {
		if m.Level != levelResolved {
			return "an incident was already open: " + format.Truncate(format.FirstLine(m.Text), maxQuote), false
		}
	}
	return "", false
}

// UnsteadyAfter says why the steady state is not back; empty: it is.
func (e *Evaluation) UnsteadyAfter() string {
	at := e.Evidence.At
	if open := e.countPending(e.scenarioTasks()); open > 0 {
		return fmt.Sprintf("%d tasks of the scenario have not ended", open)
	}
	if e.spec.Arrivals.Rest > 0 || e.live() {
		if at < e.spec.Duration+steadyDuration {
			return "too early to decide"
		}
		if why := e.unhealthy(e.tasksDue(at-steadyDuration, at)); why != "" {
			return why
		}
	}
	if !e.expectsMessages() {
		return ""
	}
	if r := e.unnotifiedIncidents(); r.Value > 0 {
		return r.Reason
	}
	_, ok, _ := e.lastResolved()
	return reasonIf(!ok && len(e.Evidence.Messages) > 0, "no message announced the end of an incident")
}

// expectsMessages says whether the drill is about notifications, so that it waits for the last one.
func (e *Evaluation) expectsMessages() bool {
	return slices.ContainsFunc(e.Run.Spec.Expect, func(expected drill.Expectation) bool {
		return expected.Measure == drill.TimeToResolve || expected.Measure == drill.MessagesLost
	})
}

func (e *Evaluation) countPending(tasks []drill.Task) int {
	return count(tasks, func(t drill.Task) bool { return t.Outcome == drill.Pending })
}

// unhealthy says what is wrong with tasks; empty: nothing. One late task among many is chance.
func (e *Evaluation) unhealthy(tasks []drill.Task) string {
	refused, failed, late := 0, 0, 0
	for _, t := range tasks {
		switch {
		case t.Outcome == drill.Refused:
			refused++
		case t.Outcome == drill.Served:
			late += btoi(t.Ended-t.Due > e.Evidence.SLO)
		case t.Outcome == drill.Pending:
			late += btoi(e.Evidence.At-t.Due > e.Evidence.SLO)
		default:
			failed++
		}
	}
	switch {
	case refused > 0:
		return fmt.Sprintf("%d of %d tasks were refused", refused, len(tasks))
	case failed > 0:
		return fmt.Sprintf("%d of %d tasks ended with an error", failed, len(tasks))
	case late > 1 && late*10 > len(tasks):
		return fmt.Sprintf("%d of %d tasks were late", late, len(tasks))
	}
	return ""
}
