package drill

import (
	"cmp"
	"slices"
	"time"

	"headgate/proxy/fault"
)

// Facts are all that a run is judged by.
type Facts struct {
	Run      Run
	Zero     time.Time // instant of the wall clock at which the scenario's time is 0
	Evidence Evidence
	Taken    []Taken   // steps, in order
	Clears   []Cleared // each time that faults were cleared
	Drift    Reading   // of production
	// Steady says whether the steady state came back, after how long, and if not,
	// what still was wrong.
	Steady    bool
	SteadyIn  time.Duration // scenario time, from the end of the trouble
	SteadyWhy string
	// Over says that the run went through to its end. What has not come by then did
	// not come.
	Over bool
}

// Taken is a step that was taken. Its times are scenario time.
type Taken struct {
	Step     Step
	Ordered  time.Duration
	Answered time.Duration
	Undone   time.Duration // when it was taken back, meaningless unless Back
	Back     bool
	Err      string // why it did not work
}

// look is the evidence, prepared for questions.
type look struct {
	Facts
	spec  Scenario
	speed float64
	slack time.Duration // how far two clocks and a busy machine may lie apart, scenario time
	calls map[int][]Call
	waits []wait // how tasks queued, by their beginning
}

// wait is how long a task that was let in waited for the gate.
type wait struct{ from, to time.Duration }

// leftQueue is the reason of a refusal that comes after waiting.
const leftQueue = "deadline_passed"

// wallSlack is what a machine may take for its own work, on the wall clock.
const wallSlack = 150 * time.Millisecond

func prepare(f Facts) *look {
	l := &look{Facts: f, spec: f.Run.Spec.Scenario, speed: max(f.Run.Speed, 1e-3), calls: map[int][]Call{}}
	l.slack = time.Second + max(time.Duration(float64(wallSlack)*l.speed), l.stall())
	for _, c := range f.Evidence.Calls {
		l.calls[c.Task] = append(l.calls[c.Task], c)
	}
	for _, t := range f.Evidence.Tasks {
		if w, ok := l.waitOf(t); ok {
			l.waits = append(l.waits, w)
		}
	}
	slices.SortFunc(l.waits, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
	return l
}

// stall is the longest time for which the machine did not come to send a task that
// was due, but for the worst one in 200. Whatever else took as long may be its doing
// as well.
func (l *look) stall() time.Duration {
	if len(l.Evidence.Tasks) == 0 {
		return 0
	}
	lags := make([]time.Duration, 0, len(l.Evidence.Tasks))
	for _, t := range l.Evidence.Tasks {
		if t.End != Unsent {
			lags = append(lags, t.Sent-t.Due)
		}
	}
	slices.Sort(lags)
	if len(lags) == 0 {
		return 0
	}
	return min(lags[len(lags)-1-len(lags)/200], time.Duration(float64(mostStall)*l.speed))
}

// mostStall bounds what a busy machine excuses, on the wall clock.
const mostStall = time.Second

// waitOf is how long a task waited, as seen from outside: from being sent until the
// gate called the endpoint for it, or until it ended without a call. Only what left
// the queue unserved has waited for its refusal.
func (l *look) waitOf(t Task) (wait, bool) {
	switch calls := l.calls[t.ID]; {
	case t.End == Unsent:
		return wait{}, false
	case len(calls) > 0:
		return wait{t.Sent, calls[0].Began}, true
	case t.End == Pending:
		return wait{t.Sent, l.Evidence.At}, true
	case t.End == Refused && t.Reason != leftQueue:
		return wait{}, false
	default:
		return wait{t.Sent, t.Ended}, true
	}
}

// scenario turns an instant of the wall clock into scenario time.
func (l *look) scenario(t time.Time) time.Duration {
	return time.Duration(float64(t.Sub(l.Zero)) * l.speed)
}

// told is when a message was accepted. What headgate took counts in scenario time,
// what Slack took counts as it is: it accepts one message a second at any speed.
func (l *look) told(m Message) time.Duration {
	if m.Made.IsZero() || m.Made.After(m.Accepted) {
		return l.scenario(m.Accepted)
	}
	return l.scenario(m.Made) + m.Accepted.Sub(m.Made)
}

// onset is when the trouble of a scenario begins, and end when it is over. Without a
// baseline all of it is trouble.
func (s Scenario) onset() time.Duration {
	if s.Baseline == 0 {
		return 0
	}
	first := s.Duration
	s.troubles(func(from, _ time.Duration) { first = min(first, from) })
	if first == s.Duration {
		return 0
	}
	return first
}

func (s Scenario) end() time.Duration {
	last := time.Duration(-1)
	s.troubles(func(_, to time.Duration) { last = max(last, to) })
	if last < 0 {
		return s.Duration
	}
	return min(last, s.Duration)
}

// troubles calls f with the span of everything that the scenario does besides its
// steady load. A step that is not taken back lasts to the end.
func (s Scenario) troubles(f func(from, to time.Duration)) {
	for _, b := range s.Arrivals.Bursts {
		f(b.From, b.To)
	}
	for _, i := range slices.Concat(s.Faults, s.Slack) {
		f(i.From, i.From+i.For)
	}
	for _, st := range s.Steps {
		to := st.At + st.For
		if st.For == 0 {
			to = s.Duration
		}
		f(st.At, to)
	}
}

// of returns the tasks that were due from (included) to (not included).
func (l *look) due(from, to time.Duration) []Task {
	var some []Task
	for _, t := range l.Evidence.Tasks {
		if t.Due >= from && t.Due < to && t.End != Unsent {
			some = append(some, t)
		}
	}
	return some
}

// judged are the tasks of the scenario itself, without baseline and recovery.
func (l *look) judged() []Task { return l.due(0, l.spec.Duration) }

// struck says whether a fault befell a task, or could explain its end.
func (l *look) struck(t Task) bool {
	for _, c := range l.calls[t.ID] {
		if c.Fault != "" {
			return true
		}
	}
	return false
}

// lastCall is the call that the task's answer came from.
func (l *look) lastCall(t Task) (Call, bool) {
	calls := l.calls[t.ID]
	if len(calls) == 0 {
		return Call{}, false
	}
	return calls[len(calls)-1], true
}

// broke says whether a fault made the answer of a call come to no good end.
func (c Call) broke() bool {
	switch c.Fault {
	case fault.Status:
		return c.Status >= 400
	case fault.Reset, fault.Refuse:
		return c.Status == 0
	case fault.Truncate:
		return !c.Clean // otherwise it is the fault that did not work
	}
	return false
}

// overfilled says whether what waits at a time may have been let in while the gate
// was taken out.
func (l *look) overfilled(at time.Duration) bool {
	t, ok := l.took(StepRollback)
	return ok && t.Err == "" && at >= t.Ordered
}

// restored is when the order came that ended a rollback: by taking it back, or by a
// later step.
func (l *look) restored(rollback Taken) time.Duration {
	over := l.Evidence.At
	switch st := rollback.Step; {
	case rollback.Back && st.For > 0:
		over = min(rollback.Undone, st.At+st.For)
	case rollback.Back:
		over = rollback.Undone
	}
	for _, t := range l.Taken {
		if t.Step.Kind == StepRestore && t.Err == "" && t.Ordered >= rollback.Answered {
			over = min(over, t.Ordered)
		}
	}
	return over
}
