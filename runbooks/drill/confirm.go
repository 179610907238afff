package drill

import (
	"fmt"
	"math"
	"time"

	"headgate/proxy/fault"
)

// unproved says why the run cannot be judged: the load did not come, the endpoint
// was not what it should be, a fault had no effect. Each is a sentence of its own.
func (l *look) unproved() []string {
	checks := []func(*look) string{
		(*look).eyes, (*look).rate, (*look).samples, (*look).bursts, (*look).whole, (*look).service, (*look).unhurried, (*look).stepsWorked,
	}
	var all []string
	for _, check := range checks {
		if what := check(l); what != "" {
			all = append(all, what)
		}
	}
	for _, i := range l.spec.Faults {
		if what := l.confirm(i); what != "" {
			all = append(all, "injection not confirmed: "+what)
		}
	}
	if len(l.spec.Slack) > 0 && l.Evidence.Befallen[ToSlack] == 0 {
		all = append(all, "injection not confirmed: no fault befell a message on its way to Slack")
	}
	return all
}

// unprovedBefore says why a baseline cannot be judged.
func (l *look) unprovedBefore() string {
	for _, check := range []func(*look) string{(*look).heldUp, (*look).eyes, (*look).rate, (*look).unhurried, (*look).service} {
		if what := check(l); what != "" {
			return what
		}
	}
	return ""
}

func (l *look) eyes() string {
	if l.Evidence.Stale != "" {
		return "not all was seen: " + l.Evidence.Stale
	}
	return ""
}

// rate says whether the load was what it should be.
func (l *look) rate() string {
	unsent := 0
	for _, t := range l.Evidence.Tasks {
		unsent += one(t.End == Unsent)
	}
	sent := len(l.Evidence.Tasks) - unsent
	switch {
	case !l.Evidence.KeptRate && l.Evidence.RateNote != "":
		return "the generator did not keep its rate: " + l.Evidence.RateNote
	case !l.Evidence.KeptRate:
		return "the generator did not keep its rate"
	case sent < l.Evidence.Planned-max(3, l.Evidence.Planned/50):
		return fmt.Sprintf("the generator sent %d of %d tasks", sent, l.Evidence.Planned)
	}
	return ""
}

func (l *look) samples() string {
	if n := len(l.judged()); n < enough {
		return fmt.Sprintf("only %d tasks were sent, and %d are needed to judge by", n, enough)
	}
	return ""
}

// bursts says whether the load rose when it should. Arrivals vary by chance; five
// deviations are not chance.
func (l *look) bursts() string {
	for _, b := range l.spec.Arrivals.Bursts {
		want := l.spec.Arrivals.Rate * b.Multiple * (b.To - b.From).Seconds()
		got := float64(len(l.due(b.From, b.To)))
		if math.Abs(got-want) > 5*math.Sqrt(want)+2 {
			return fmt.Sprintf("the burst from %s did not come as it should: %.0f tasks, of about %.0f", formatDuration(b.From), got, want)
		}
	}
	return ""
}

// whole says whether as much came in all as should.
func (l *look) whole() string {
	want := l.spec.tasks(0)
	got := float64(len(l.due(-l.spec.Baseline, l.spec.Duration)))
	if want > 0 && math.Abs(got-want) > 5*math.Sqrt(want)+2 {
		return fmt.Sprintf("the load did not come as it should: %.0f tasks, of about %.0f", got, want)
	}
	return ""
}

// unhurried says whether the endpoint was free to take what the gate let through: one
// that makes calls wait measures itself.
func (l *look) unhurried() string {
	if _, lost := l.took(StepLoseSlots); lost {
		return ""
	}
	n, waited := 0, 0
	for _, c := range l.Evidence.Calls {
		n += one(c.Reached)
		waited += one(c.Reached && c.Waited > 2*l.slack)
	}
	if waited > 2 && waited*20 > n {
		return fmt.Sprintf("the endpoint was overloaded: %d of %d calls waited there", waited, n)
	}
	return ""
}

// service says whether the endpoint took its time: one that answers at once proves
// nothing of a queue.
func (l *look) service() string {
	if l.Evidence.ServiceMax == 0 {
		return ""
	}
	n, off, sum := 0, 0, time.Duration(0)
	for _, c := range l.Evidence.Calls {
		if !c.Reached || c.Working || !c.Whole || c.Fault != "" {
			continue
		}
		took := c.Left - c.Arrived - c.Waited
		n, sum = n+1, sum+took
		off += one(took < l.Evidence.ServiceMin-l.slack || took > l.Evidence.ServiceMax+2*l.slack)
	}
	if n == 0 || off*10 <= n && l.likely(sum/time.Duration(n), n) {
		return ""
	}
	return fmt.Sprintf("the endpoint did not take its time: calls took %.1f s on average, and should take %s to %s",
		sum.Seconds()/float64(n), formatDuration(l.Evidence.ServiceMin), formatDuration(l.Evidence.ServiceMax))
}

// likely says whether n calls may take this long on average: five deviations are not
// chance, and none is more than half of what lies between the bounds.
func (l *look) likely(mean time.Duration, n int) bool {
	if l.Evidence.ServiceMean == 0 {
		return true
	}
	deviation := float64(l.Evidence.ServiceMax-l.Evidence.ServiceMin) / 2 / math.Sqrt(float64(n))
	return math.Abs(float64(mean-l.Evidence.ServiceMean)) <= 5*deviation+float64(l.slack)
}

// stepsWorked says whether the steps did what they should, where that can be seen.
func (l *look) stepsWorked() string {
	for _, t := range l.Taken {
		switch {
		case t.Err != "":
			return fmt.Sprintf("step %s at %s did not work: %s", t.Step.Kind, formatDuration(t.Step.At), t.Err)
		case t.Step.Kind == StepLockRecord && l.writable(t) != "":
			return l.writable(t)
		case t.Step.Kind == StepLoseSlots && t.Back && l.waitedSince(t.Undone+l.slack) > 2:
			return fmt.Sprintf("the endpoint did not get its slots back: %d calls waited there afterwards", l.waitedSince(t.Undone+l.slack))
		case t.Step.Kind == StepLoseSlots && !l.waitedAtEndpoint(t):
			return "the endpoint lost no slots: no call waited there"
		}
	}
	if len(l.Taken) < len(l.spec.Steps) && l.Over {
		return fmt.Sprintf("%d of %d steps were taken", len(l.Taken), len(l.spec.Steps))
	}
	return ""
}

// writable says why it cannot be said that the record was locked.
func (l *look) writable(t Taken) string {
	until := l.Evidence.At
	if t.Back {
		until = t.Undone - l.slack
	}
	tried := 0
	for _, p := range l.Evidence.Probes {
		if p.At < t.Ordered || p.At > until {
			continue
		}
		tried++
		if p.Free && p.At > t.Answered {
			return fmt.Sprintf("the record was not locked: it could be written at %.0f s", p.At.Seconds())
		}
	}
	if tried == 0 {
		return "nobody tried to write to the record while it should have been locked"
	}
	return ""
}

// waitedSince counts calls that came to the endpoint from a time on and had to wait
// there.
func (l *look) waitedSince(at time.Duration) int {
	n := 0
	for _, c := range l.Evidence.Calls {
		n += one(c.Reached && c.Arrived > at && c.Waited > l.slack)
	}
	return n
}

func (l *look) waitedAtEndpoint(t Taken) bool {
	for _, c := range l.Evidence.Calls {
		if c.Reached && c.Waited > l.slack && c.Arrived >= t.Ordered {
			return true
		}
	}
	return false
}

// confirm says why it cannot be said that a fault had its effect.
func (l *look) confirm(i Injection) string {
	var hit []Call
	all := 0
	for _, c := range l.Evidence.Calls {
		if c.Began < i.From+l.slack || c.Began >= i.From+i.For-l.slack {
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
		return fmt.Sprintf("fault %s befell none of %d calls", i.Kind, all)
	case !l.live() && math.Abs(float64(len(hit))-want) > 2+4*math.Sqrt(want*(1-i.Share)):
		return fmt.Sprintf("fault %s befell %d of %d calls, and should befall about %.0f", i.Kind, len(hit), all, want)
	}
	return l.effect(i, hit)
}

// effect looks at the far side of what was befallen.
func (l *look) effect(i Injection, hit []Call) string {
	seen, without := 0, 0
	for _, c := range hit {
		works, can := l.worked(i, c)
		seen += one(can)
		without += one(can && !works)
	}
	switch {
	case seen == 0:
		return fmt.Sprintf("no call that fault %s befell was seen to its end", i.Kind)
	case without*5 > seen:
		return fmt.Sprintf("%s: %d of %d calls that fault %s befell went as if nothing had been", effects(i.Kind), without, seen, i.Kind)
	}
	return ""
}

func effects(k fault.Kind) string {
	switch k {
	case fault.Latency, fault.Drip, fault.Hang:
		return "the endpoint did not slow down"
	case fault.Truncate, fault.Malformed:
		return "the answers did not break"
	}
	return "the endpoint did not fail"
}

// worked says whether a fault had its effect on a call, and whether that can be
// said.
func (l *look) worked(i Injection, c Call) (works, can bool) {
	over := i.From + i.For - l.slack // from then on it may have been cut short
	switch i.Kind {
	case fault.Latency:
		least := i.Delay - i.Jitter - l.slack/2
		if !c.Reached || c.Began+i.Delay+i.Jitter > over {
			return false, false
		}
		return c.Arrived-c.Began >= min(least, i.Delay/2), true
	case fault.Drip:
		return c.Ended-c.Began > c.Left-c.Arrived+i.Delay/2, c.Reached && !c.Open && c.Ended < over
	case fault.Hang:
		return c.Open || c.Ended-c.Began >= min(5*time.Second, over-c.Began), c.Began < over
	case fault.Status:
		return c.Status == i.Code, !c.Open
	case fault.Reset, fault.Refuse:
		return c.Status == 0, !c.Open
	}
	t, ok := l.task(c.Task)
	return t.End != Served, ok && t.End != Pending
}

func (l *look) task(id int) (Task, bool) {
	for _, t := range l.Evidence.Tasks {
		if t.ID == id {
			return t, true
		}
	}
	return Task{}, false
}
