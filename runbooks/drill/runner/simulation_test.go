package runner_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// defects breaks a part of the simulated system.
type defects struct {
	neverRefuse, alwaysRefuse       bool
	retryAfter                      string // of refusals; "none" leaves it out
	leak                            int    // permits that are not returned
	extraCalls                      int    // calls in flight above the workers
	slackDown, neverWarn            bool
	neverPage, neverResolve         bool
	pool                            string // that messages name
	noDrillMark                     bool   // messages do not say DRILL
	messageDelay                    time.Duration
	rollbackIgnored, restoreIgnored bool // only said
	faultsHaveNoEffect              bool // are counted, and have no effect
	faultsNotCleared                bool // are not cleared
	instantEndpoint                 bool // the endpoint answers at once
	falseCompletions                bool // broken answers look whole
	alteredAnswers                  bool // answers are not the endpoint's
	duplicateCalls                  bool // the endpoint is called twice
	callsForRefused                 bool // for refused tasks as well
	loseTask                        bool // one task is never answered
	delayAnswers                    bool // answers come late to their clients
	generatorBehind                 bool // the generator sends half
	spuriousErrors                  bool // tasks fail for no reason
	lifo                            bool // the newest is served first
	stuckAge                        bool // an old age refuses although no task waits any more
	dropQueue                       bool // a rollback turns away who waits
	halfLoad                        bool // half the load comes, and the plan says so
	slotContention                  bool // calls wait at the endpoint
	recordUnlocked                  bool // the record can be written all the time
}

// sim plays a spec through a gate with the default thresholds, second by second, and
// reports what was observed from outside.
type sim struct {
	spec     drill.Spec
	defects  defects
	rng      *rand.Rand
	workers  int
	tasks    []drill.Task
	calls    []drill.Call
	queue    []int // of tasks, first come first served
	inFlight []int // of calls
	leaked   int   // permits that were leaked
	refused  []time.Duration
	overAge  []time.Duration // when the oldest was older than a warning's limit
}

const tick = 100 * time.Millisecond

func simulate(spec drill.Spec, sab defects) drill.Evidence {
	s := &sim{spec: spec, defects: sab, rng: rand.New(rand.NewPCG(spec.Scenario.Seed, 1)), workers: cmp.Or(spec.Scenario.Workers, 4)}
	sc := spec.Scenario
	end := sc.Duration + spec.Recovery
	for at := -sc.Baseline; at < end; at += tick {
		s.step(at)
	}
	e := drill.Evidence{
		At: end, Pool: "default", Workers: s.workers, SLO: time.Minute, MaxQueueAge: 25 * time.Second, MaxWaiting: 2*s.workers + 1,
		ServiceMin: 5 * time.Second, ServiceMax: 30 * time.Second, LoadEnded: true, KeptRate: true, Planned: len(s.tasks),
		Tasks: s.tasks, Calls: s.calls, FaultHits: map[drill.FaultTarget]int{},
	}
	if sc.Service == "uniform:5s-20s" {
		e.ServiceMax = 20 * time.Second
	}
	for _, st := range sc.Steps {
		for at := st.At; st.Kind == drill.StepLockRecord && at < st.At+st.For; at += time.Second {
			e.WriteProbes = append(e.WriteProbes, drill.WriteProbe{At: at, Writable: sab.recordUnlocked})
		}
	}
	if sab.generatorBehind {
		e.Planned *= 2
	}
	for _, c := range s.calls {
		e.FaultHits[drill.TargetUpstream] += len(c.Fault[:min(1, len(c.Fault))])
	}
	s.addMessages(&e)
	return e
}

func (s *sim) rate(at time.Duration) float64 {
	a := s.spec.Scenario.Arrivals
	if at >= s.spec.Scenario.Duration {
		return a.Rest
	}
	for _, b := range a.Bursts {
		if at >= b.From && at < b.To {
			return a.Rate * b.Multiple
		}
	}
	return a.Rate
}

func (s *sim) step(at time.Duration) {
	s.finish(at)
	if s.defects.dropQueue && s.inPassThrough(at) && !s.inPassThrough(at-tick) {
		for _, id := range s.queue {
			t := &s.tasks[id]
			t.Outcome, t.Ended, t.Status, t.RetryAfter, t.Reason = drill.Refused, at+tick, 429, "5", "queue_age"
		}
		s.queue = nil
	}
	rate := s.rate(at)
	if s.defects.halfLoad {
		rate /= 2
	}
	for n := rate * tick.Seconds(); n > 0; n-- {
		if s.rng.Float64() < n {
			s.arrive(at)
		}
	}
	s.dispatch(at)
	if len(s.queue) > 0 && at-s.tasks[s.queue[0]].Sent > 15*time.Second {
		s.overAge = append(s.overAge, at)
	}
}

// inPassThrough says whether the gate is taken out.
func (s *sim) inPassThrough(at time.Duration) bool {
	out := false
	for _, st := range s.spec.Scenario.Steps {
		switch {
		case st.Kind == drill.StepRollback && !s.defects.rollbackIgnored && at >= st.At && (st.For == 0 || at < st.At+st.For):
			out = true
		case st.Kind == drill.StepRestore && !s.defects.restoreIgnored && at >= st.At:
			out = false
		}
	}
	return out
}

func (s *sim) arrive(at time.Duration) {
	id := len(s.tasks)
	t := drill.Task{ID: id, Due: at, Sent: at, Checksum: 1}
	waiting := len(s.queue)
	full := len(s.inFlight)+s.leaked >= s.limit()
	reason, old := "queue_depth", waiting > 0 && at-s.tasks[s.queue[0]].Sent > 25*time.Second
	if old {
		reason = "queue_age"
	}
	refuse := full && waiting > 2*s.workers || old
	refuse = refuse || s.defects.stuckAge && len(s.refused) > 0 && len(s.refused) < 100 && full
	refuse = (refuse && !s.defects.neverRefuse && !s.inPassThrough(at)) || s.defects.alwaysRefuse
	switch {
	case refuse:
		t.Outcome, t.Ended, t.Status, t.RetryAfter, t.Reason = drill.Refused, at+tick/10, 429, "5", reason
		if s.defects.retryAfter != "" {
			t.RetryAfter = s.defects.retryAfter
		}
		if s.defects.retryAfter == "none" {
			t.RetryAfter = ""
		}
		if s.defects.callsForRefused {
			s.calls = append(s.calls, drill.Call{Task: id, Started: at, Ended: at + tick, Reached: true, Arrived: at, Finished: at + tick, Complete: true})
		}
		s.refused = append(s.refused, at)
	case s.defects.spuriousErrors && id%10 == 3:
		t.Outcome, t.Ended, t.Status = drill.Errored, at+tick, 500
	case s.defects.loseTask && id == 40:
		// goes nowhere
	default:
		s.queue = append(s.queue, id)
	}
	s.tasks = append(s.tasks, t)
}

func (s *sim) limit() int { return s.workers + s.defects.extraCalls }

// slots is how many calls the endpoint works on at once.
func (s *sim) slots(at time.Duration) int {
	for _, st := range s.spec.Scenario.Steps {
		if st.Kind == drill.StepLoseSlots && at >= st.At && at < st.At+st.For {
			return s.workers - st.Count
		}
	}
	return math.MaxInt
}

func (s *sim) dispatch(at time.Duration) {
	for len(s.queue) > 0 && len(s.inFlight)+s.leaked < s.limit() {
		id := s.queue[0]
		if last := len(s.queue) - 1; s.defects.lifo {
			id = s.queue[last]
			s.queue = s.queue[:last]
		} else {
			s.queue = s.queue[1:]
		}
		s.call(id, at)
		if s.defects.duplicateCalls && id == 40 {
			s.call(id, at)
		}
	}
}

func (s *sim) call(id int, at time.Duration) {
	min, max := 5*time.Second, 30*time.Second
	if s.spec.Scenario.Service == "uniform:5s-20s" {
		max = 20 * time.Second
	}
	took := min + time.Duration(s.rng.Float64()*float64(max-min))
	if s.defects.instantEndpoint {
		took = tick
	}
	c := drill.Call{Task: id, Started: at, Open: true, Status: 200, Bytes: 100, Checksum: 1, Reached: true, Arrived: at, Complete: true}
	c.SlotWait = s.slotWait(at)
	if s.defects.slotContention && id%5 == 0 {
		c.SlotWait = 20 * time.Second
	}
	c.Finished = at + c.SlotWait + took
	c.Ended = c.Finished
	s.applyFault(&c, at, took)
	s.tasks[id].Bytes = 100
	s.inFlight = append(s.inFlight, len(s.calls))
	s.calls = append(s.calls, c)
}

// slotWait is how long a call waits for a slot of the endpoint, about.
func (s *sim) slotWait(at time.Duration) time.Duration {
	var lefts []time.Duration
	for _, i := range s.inFlight {
		lefts = append(lefts, s.calls[i].Finished)
	}
	slices.Sort(lefts)
	if over := len(lefts) - s.slots(at); over >= 0 && over < len(lefts) {
		return max(0, lefts[over]-at)
	}
	return 0
}

func (s *sim) applyFault(c *drill.Call, at, took time.Duration) {
	for _, i := range s.spec.Scenario.Faults {
		over := i.From + i.For
		if s.defects.faultsNotCleared {
			over += time.Hour
		}
		if at < i.From || at >= over || s.rng.Float64() >= i.Share {
			continue
		}
		c.Fault = i.Kind
		if s.defects.faultsHaveNoEffect {
			return
		}
		switch i.Kind {
		case fault.Latency:
			c.Arrived += i.Delay
			c.Finished, c.Ended = c.Finished+i.Delay, c.Ended+i.Delay
		case fault.Status:
			c.Reached, c.Status, c.Ended = false, i.Code, at+tick
		case fault.Hang:
			c.Ended = min(at+2*time.Minute, over)
			c.Reached, c.Status = false, 504
		case fault.Truncate:
			c.Bytes = 50
		}
		return
	}
}

// finish ends what is over.
func (s *sim) finish(at time.Duration) {
	s.inFlight = slices.DeleteFunc(s.inFlight, func(i int) bool {
		c := &s.calls[i]
		if c.Ended > at {
			return false
		}
		c.Open = false
		t := &s.tasks[c.Task]
		t.Ended, t.Status = c.Ended+tick/10, c.Status
		if s.defects.delayAnswers {
			t.Ended += 20 * time.Second
		}
		switch {
		case c.Fault == fault.Truncate && !s.defects.faultsHaveNoEffect && !s.defects.falseCompletions:
			t.Outcome = drill.Broken
		case c.Status >= 400 && !s.defects.falseCompletions:
			t.Outcome = drill.Errored
		default:
			t.Outcome = drill.Served
		}
		if s.defects.alteredAnswers {
			t.Checksum = 2
		}
		if s.defects.leak > s.leaked && c.Task%20 == 7 {
			s.leaked++
		}
		return true
	})
}

// addMessages makes up the messages of one incident: a warning when the queue has been old
// for 30 s, a page when refusals have gone on for 200 s, the end two minutes after.
func (s *sim) addMessages(e *drill.Evidence) {
	if len(s.overAge) < 300 {
		return
	}
	warn := s.overAge[299]
	e.Incidents = []string{"i1"}
	outage := time.Duration(0)
	for _, i := range s.spec.Scenario.Slack {
		if warn >= i.From && warn < i.From+i.For {
			outage = i.From + i.For - warn
			e.FaultHits[drill.TargetSlack] = 5
		}
	}
	e.SlackCalls = 20
	if s.defects.slackDown {
		return
	}
	pool := cmp.Or(s.defects.pool, "default")
	mark := "DRILL · "
	if s.defects.noDrillMark {
		mark = ""
	}
	say := func(at time.Duration, kind, level, text string) {
		e.Messages = append(e.Messages, drill.Message{
			Incident: "i1", Kind: kind, Level: level, Channel: "C1", Text: mark + text,
			Accepted: testStart.Add(scale(at+s.defects.messageDelay, s.spec.Speed)),
		})
	}
	if !s.defects.neverWarn {
		say(warn+outage, "post", "warn", fmt.Sprintf("WARNING · the oldest waits (pool %s): 16 s, limit 15 s, since 10:00\nrule `queue_age`", pool))
	}
	if len(s.refused) == 0 {
		return
	}
	last := s.refused[len(s.refused)-1]
	if page := s.refused[0] + 200*time.Second; page < last && !s.defects.neverPage {
		say(page, "reply", "page", fmt.Sprintf("Now a page: 30 %%, limit 25 %% · refused (pool %s)", pool))
	}
	if !s.defects.neverResolve {
		say(max(last+2*time.Minute, warn+outage), "reply", "resolved", fmt.Sprintf("Resolved after %s s (pool %s)", strconv.Itoa(100), pool))
		say(max(last+2*time.Minute, warn+outage), "edit", "resolved", fmt.Sprintf("RESOLVED · the oldest waits (pool %s)", pool))
	}
}

// testStart is when the scenario's time is 0, in tests that need no clock.
var testStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func scale(d time.Duration, speed float64) time.Duration { return time.Duration(float64(d) / speed) }

// evidenceUntil is what had been seen by a time.
func evidenceUntil(e drill.Evidence, at time.Duration, wall time.Time) drill.Evidence {
	if at > e.At {
		return e
	}
	out := e
	out.At, out.LoadEnded = at, false
	out.Tasks, out.Calls, out.Messages = nil, nil, nil
	for _, t := range e.Tasks {
		if t.Sent > at {
			continue
		}
		if t.Ended > at {
			t.Outcome, t.Ended = drill.Pending, 0
		}
		out.Tasks = append(out.Tasks, t)
	}
	out.Planned = len(out.Tasks)
	for _, c := range e.Calls {
		if c.Started > at {
			continue
		}
		if c.Ended > at {
			c.Open, c.Ended = true, 0
		}
		if c.Reached && c.Arrived > at {
			c.Reached = false
		}
		if c.Finished > at {
			c.Working, c.Finished = true, 0
		}
		out.Calls = append(out.Calls, c)
	}
	for _, m := range e.Messages {
		if !m.Accepted.After(wall) {
			out.Messages = append(out.Messages, m)
		}
	}
	if len(out.Messages) == 0 {
		out.Incidents = nil
	}
	return out
}
