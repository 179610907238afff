package drill_test

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

// sabotage breaks a part of the simulated system.
type sabotage struct {
	neverRefuse, alwaysRefuse bool
	retryAfter                string // of refusals; "none" leaves it out
	leak                      int    // permits that do not come back
	extra                     int    // calls in flight above the workers
	slackDead, neverWarn      bool
	neverPage, neverResolve   bool
	pool                      string // that messages name
	plain                     bool   // messages do not say DRILL
	lateTold                  time.Duration
	flipSaid, restoreSaid     bool // only said
	faultsIdle                bool // are counted, and have no effect
	faultsStay                bool // are not cleared
	quick                     bool // the endpoint answers at once
	wholeLies                 bool // broken answers look whole
	changed                   bool // answers are not the endpoint's
	twice                     bool // the endpoint is called twice
	callsRefused              bool // for refused tasks as well
	lose                      bool // one task is never answered
	hold                      bool // answers come late to their clients
	lazy                      bool // the generator sends half
	errors                    bool // tasks fail for no reason
	lifo                      bool // the newest is served first
	stuckAge                  bool // an old age refuses when nobody waits any more
	dropQueue                 bool // a rollback turns away who waits
	half                      bool // half the load comes, and the plan says so
	crowded                   bool // calls wait at the endpoint
	unlocked                  bool // the record can be written all the time
}

// sim plays a spec through a gate with the default thresholds, second by second, and
// tells what was seen from outside.
type sim struct {
	spec    drill.Spec
	sab     sabotage
	rng     *rand.Rand
	workers int
	tasks   []drill.Task
	calls   []drill.Call
	queue   []int // of tasks, first come first served
	flying  []int // of calls
	broken  int   // permits that were leaked
	refused []time.Duration
	aged    []time.Duration // when the oldest was older than a warning's limit
}

const tick = 100 * time.Millisecond

func play(spec drill.Spec, sab sabotage) drill.Evidence {
	s := &sim{spec: spec, sab: sab, rng: rand.New(rand.NewPCG(spec.Scenario.Seed, 1)), workers: cmp.Or(spec.Scenario.Workers, 4)}
	sc := spec.Scenario
	end := sc.Duration + spec.Recovery
	for at := -sc.Baseline; at < end; at += tick {
		s.step(at)
	}
	e := drill.Evidence{
		At: end, Pool: "default", Workers: s.workers, SLO: time.Minute, MaxQueueAge: 25 * time.Second, MaxWaiting: 2*s.workers + 1,
		ServiceMin: 5 * time.Second, ServiceMax: 30 * time.Second, Over: true, KeptRate: true, Planned: len(s.tasks),
		Tasks: s.tasks, Calls: s.calls, Befallen: map[drill.Way]int{},
	}
	if sc.Service == "uniform:5s-20s" {
		e.ServiceMax = 20 * time.Second
	}
	for _, st := range sc.Steps {
		for at := st.At; st.Kind == drill.StepLockRecord && at < st.At+st.For; at += time.Second {
			e.Probes = append(e.Probes, drill.Probe{At: at, Free: sab.unlocked})
		}
	}
	if sab.lazy {
		e.Planned *= 2
	}
	for _, c := range s.calls {
		e.Befallen[drill.ToUpstream] += len(c.Fault[:min(1, len(c.Fault))])
	}
	s.tell(&e)
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
	if s.sab.dropQueue && s.passing(at) && !s.passing(at-tick) {
		for _, id := range s.queue {
			t := &s.tasks[id]
			t.End, t.Ended, t.Status, t.RetryAfter, t.Reason = drill.Refused, at+tick, 429, "5", "queue_age"
		}
		s.queue = nil
	}
	rate := s.rate(at)
	if s.sab.half {
		rate /= 2
	}
	for n := rate * tick.Seconds(); n > 0; n-- {
		if s.rng.Float64() < n {
			s.arrive(at)
		}
	}
	s.dispatch(at)
	if len(s.queue) > 0 && at-s.tasks[s.queue[0]].Sent > 15*time.Second {
		s.aged = append(s.aged, at)
	}
}

// passing says whether the gate is taken out.
func (s *sim) passing(at time.Duration) bool {
	out := false
	for _, st := range s.spec.Scenario.Steps {
		switch {
		case st.Kind == drill.StepRollback && !s.sab.flipSaid && at >= st.At && (st.For == 0 || at < st.At+st.For):
			out = true
		case st.Kind == drill.StepRestore && !s.sab.restoreSaid && at >= st.At:
			out = false
		}
	}
	return out
}

func (s *sim) arrive(at time.Duration) {
	id := len(s.tasks)
	t := drill.Task{ID: id, Due: at, Sent: at, Sum: 1}
	waiting := len(s.queue)
	full := len(s.flying)+s.broken >= s.limit()
	reason, old := "queue_depth", waiting > 0 && at-s.tasks[s.queue[0]].Sent > 25*time.Second
	if old {
		reason = "queue_age"
	}
	refuse := full && waiting > 2*s.workers || old
	refuse = refuse || s.sab.stuckAge && len(s.refused) > 0 && len(s.refused) < 100 && full
	refuse = (refuse && !s.sab.neverRefuse && !s.passing(at)) || s.sab.alwaysRefuse
	switch {
	case refuse:
		t.End, t.Ended, t.Status, t.RetryAfter, t.Reason = drill.Refused, at+tick/10, 429, "5", reason
		if s.sab.retryAfter != "" {
			t.RetryAfter = s.sab.retryAfter
		}
		if s.sab.retryAfter == "none" {
			t.RetryAfter = ""
		}
		if s.sab.callsRefused {
			s.calls = append(s.calls, drill.Call{Task: id, Began: at, Ended: at + tick, Reached: true, Arrived: at, Left: at + tick, Whole: true})
		}
		s.refused = append(s.refused, at)
	case s.sab.errors && id%10 == 3:
		t.End, t.Ended, t.Status = drill.Error, at+tick, 500
	case s.sab.lose && id == 40:
		// goes nowhere
	default:
		s.queue = append(s.queue, id)
	}
	s.tasks = append(s.tasks, t)
}

func (s *sim) limit() int { return s.workers + s.sab.extra }

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
	for len(s.queue) > 0 && len(s.flying)+s.broken < s.limit() {
		id := s.queue[0]
		if last := len(s.queue) - 1; s.sab.lifo {
			id = s.queue[last]
			s.queue = s.queue[:last]
		} else {
			s.queue = s.queue[1:]
		}
		s.call(id, at)
		if s.sab.twice && id == 40 {
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
	if s.sab.quick {
		took = tick
	}
	c := drill.Call{Task: id, Began: at, Open: true, Status: 200, Bytes: 100, Sum: 1, Reached: true, Arrived: at, Whole: true}
	c.Waited = s.waits(at)
	if s.sab.crowded && id%5 == 0 {
		c.Waited = 20 * time.Second
	}
	c.Left = at + c.Waited + took
	c.Ended = c.Left
	s.strike(&c, at, took)
	s.tasks[id].Bytes = 100
	s.flying = append(s.flying, len(s.calls))
	s.calls = append(s.calls, c)
}

// waits is how long a call waits for a slot of the endpoint, about.
func (s *sim) waits(at time.Duration) time.Duration {
	var lefts []time.Duration
	for _, i := range s.flying {
		lefts = append(lefts, s.calls[i].Left)
	}
	slices.Sort(lefts)
	if over := len(lefts) - s.slots(at); over >= 0 && over < len(lefts) {
		return max(0, lefts[over]-at)
	}
	return 0
}

func (s *sim) strike(c *drill.Call, at, took time.Duration) {
	for _, i := range s.spec.Scenario.Faults {
		over := i.From + i.For
		if s.sab.faultsStay {
			over += time.Hour
		}
		if at < i.From || at >= over || s.rng.Float64() >= i.Share {
			continue
		}
		c.Fault = i.Kind
		if s.sab.faultsIdle {
			return
		}
		switch i.Kind {
		case fault.Latency:
			c.Arrived += i.Delay
			c.Left, c.Ended = c.Left+i.Delay, c.Ended+i.Delay
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
	s.flying = slices.DeleteFunc(s.flying, func(i int) bool {
		c := &s.calls[i]
		if c.Ended > at {
			return false
		}
		c.Open = false
		t := &s.tasks[c.Task]
		t.Ended, t.Status = c.Ended+tick/10, c.Status
		if s.sab.hold {
			t.Ended += 20 * time.Second
		}
		switch {
		case c.Fault == fault.Truncate && !s.sab.faultsIdle && !s.sab.wholeLies:
			t.End = drill.Broken
		case c.Status >= 400 && !s.sab.wholeLies:
			t.End = drill.Error
		default:
			t.End = drill.Served
		}
		if s.sab.changed {
			t.Sum = 2
		}
		if s.sab.leak > s.broken && c.Task%20 == 7 {
			s.broken++
		}
		return true
	})
}

// tell makes up the messages of one incident: a warning when the queue has been old
// for 30 s, a page when refusals have gone on for 200 s, the end two minutes after.
func (s *sim) tell(e *drill.Evidence) {
	if len(s.aged) < 300 {
		return
	}
	warn := s.aged[299]
	e.Incidents = []string{"i1"}
	outage := time.Duration(0)
	for _, i := range s.spec.Scenario.Slack {
		if warn >= i.From && warn < i.From+i.For {
			outage = i.From + i.For - warn
			e.Befallen[drill.ToSlack] = 5
		}
	}
	e.Tried = 20
	if s.sab.slackDead {
		return
	}
	pool := cmp.Or(s.sab.pool, "default")
	mark := "DRILL · "
	if s.sab.plain {
		mark = ""
	}
	say := func(at time.Duration, kind, level, text string) {
		e.Messages = append(e.Messages, drill.Message{
			Incident: "i1", Kind: kind, Level: level, Channel: "C1", Text: mark + text,
			Accepted: zero.Add(scale(at+s.sab.lateTold, s.spec.Speed)),
		})
	}
	if !s.sab.neverWarn {
		say(warn+outage, "post", "warn", fmt.Sprintf("WARNING · the oldest waits (pool %s): 16 s, limit 15 s, since 10:00\nrule `queue_age`", pool))
	}
	if len(s.refused) == 0 {
		return
	}
	last := s.refused[len(s.refused)-1]
	if page := s.refused[0] + 200*time.Second; page < last && !s.sab.neverPage {
		say(page, "reply", "page", fmt.Sprintf("Now a page: 30 %%, limit 25 %% · refused (pool %s)", pool))
	}
	if !s.sab.neverResolve {
		say(max(last+2*time.Minute, warn+outage), "reply", "resolved", fmt.Sprintf("Resolved after %s s (pool %s)", strconv.Itoa(100), pool))
		say(max(last+2*time.Minute, warn+outage), "edit", "resolved", fmt.Sprintf("RESOLVED · the oldest waits (pool %s)", pool))
	}
}

// zero is when the scenario's time is 0, in tests that need no clock.
var zero = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func scale(d time.Duration, speed float64) time.Duration { return time.Duration(float64(d) / speed) }

// until is what had been seen by a time.
func until(e drill.Evidence, at time.Duration, wall time.Time) drill.Evidence {
	if at > e.At {
		return e
	}
	out := e
	out.At, out.Over = at, false
	out.Tasks, out.Calls, out.Messages = nil, nil, nil
	for _, t := range e.Tasks {
		if t.Sent > at {
			continue
		}
		if t.Ended > at {
			t.End, t.Ended = drill.Pending, 0
		}
		out.Tasks = append(out.Tasks, t)
	}
	out.Planned = len(out.Tasks)
	for _, c := range e.Calls {
		if c.Began > at {
			continue
		}
		if c.Ended > at {
			c.Open, c.Ended = true, 0
		}
		if c.Reached && c.Arrived > at {
			c.Reached = false
		}
		if c.Left > at {
			c.Working, c.Left = true, 0
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
