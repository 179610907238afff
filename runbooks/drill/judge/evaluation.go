package judge

import (
	"cmp"
	"slices"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// Facts are all that a run is judged by.
type Facts struct {
	Run            drill.Run
	ScenarioStart  time.Time // instant of the wall clock at which the scenario's time is 0
	Evidence       drill.Evidence
	Steps          []StepResult        // steps, in order
	ClearResults   []drill.ClearResult // each time that faults were cleared
	Drift          drill.Reading       // of production
	SteadyState    bool                // it returned
	RecoveryTime   time.Duration       // after this, scenario time, from the end of the disturbance
	UnsteadyReason string              // what was still wrong; empty: nothing
	Complete       bool                // the run went through to its end: what is missing will not come
}

// StepResult is a step that was run. Its times are scenario time.
type StepResult struct {
	Step       drill.Step
	Requested  time.Duration
	Completed  time.Duration
	RevertedAt time.Duration // meaningless unless Reverted
	Reverted   bool
	Err        string // why it failed; empty: it did not
}

// Evaluation is the evidence, prepared for questions.
type Evaluation struct {
	Facts
	spec        drill.Scenario
	speed       float64
	tolerance   time.Duration // of comparisons of times, since a machine may be busy; scenario time
	callsByTask map[int][]drill.Call
	tasks       map[int]drill.Task // by ID
	waits       []queueWait        // how tasks queued, by their beginning
	readings    map[drill.Measure]drill.Reading
}

// queueWait is how long an admitted task waited for the gate.
type queueWait struct{ from, to time.Duration }

// reasonDeadlinePassed is the reason of a refusal that comes after waiting.
const reasonDeadlinePassed = "deadline_passed"

// wallTolerance is what a machine may take for its work, on the wall clock.
const wallTolerance = 150 * time.Millisecond

// NewEvaluation prepares facts for questions.
func NewEvaluation(f Facts) *Evaluation {
	l := &Evaluation{
		Facts: f, spec: f.Run.Spec.Scenario, speed: max(f.Run.Speed, 1e-3),
		callsByTask: map[int][]drill.Call{}, tasks: map[int]drill.Task{}, readings: map[drill.Measure]drill.Reading{},
	}
	l.tolerance = time.Second + max(time.Duration(float64(wallTolerance)*l.speed), l.sendStall())
	for _, c := range f.Evidence.Calls {
		l.callsByTask[c.Task] = append(l.callsByTask[c.Task], c)
	}
	for _, t := range f.Evidence.Tasks {
		l.tasks[t.ID] = t
		if w, ok := l.queueWaitOf(t); ok {
			l.waits = append(l.waits, w)
		}
	}
	slices.SortFunc(l.waits, func(a, b queueWait) int { return cmp.Compare(a.from, b.from) })
	return l
}

// sendStall is the longest delay with which tasks were sent, but for the worst in 200. A busy machine may have delayed
// everything else as long.
func (e *Evaluation) sendStall() time.Duration {
	var lags []time.Duration
	for _, t := range e.Evidence.Tasks {
		if t.Outcome != drill.Unsent {
			lags = append(lags, t.Sent-t.Due)
		}
	}
	slices.Sort(lags)
	if len(lags) == 0 {
		return 0
	}
	return min(lags[len(lags)-1-len(lags)/200], time.Duration(float64(maxSendStall)*e.speed))
}

// maxSendStall bounds what a busy machine excuses, on the wall clock.
const maxSendStall = time.Second

// queueWaitOf is how long a task waited, as seen from outside: from being sent until the gate called the endpoint for
// it, or until it ended without a call. Of refused tasks, only those that left the queue unserved have waited.
func (e *Evaluation) queueWaitOf(t drill.Task) (queueWait, bool) {
	switch calls := e.callsByTask[t.ID]; {
	case t.Outcome == drill.Unsent:
		return queueWait{}, false
	case len(calls) > 0:
		return queueWait{t.Sent, calls[0].Started}, true
	case t.Outcome == drill.Pending:
		return queueWait{t.Sent, e.Evidence.At}, true
	case t.Outcome == drill.Refused && t.Reason != reasonDeadlinePassed:
		return queueWait{}, false
	default:
		return queueWait{t.Sent, t.Ended}, true
	}
}

// scenarioTime converts an instant of the wall clock to scenario time.
func (e *Evaluation) scenarioTime(t time.Time) time.Duration {
	return time.Duration(float64(t.Sub(e.ScenarioStart)) * e.speed)
}

// acceptedAt is when a message was accepted. The time that headgate took counts as scenario time, that of Slack as it
// is, since Slack accepts one message a second at any speed.
func (e *Evaluation) acceptedAt(m drill.Message) time.Duration {
	if m.FirstAttempt.IsZero() || m.FirstAttempt.After(m.Accepted) {
		return e.scenarioTime(m.Accepted)
	}
	return e.scenarioTime(m.FirstAttempt) + m.Accepted.Sub(m.FirstAttempt)
}

// tasksDue returns the tasks that were due from (included) to (not included).
func (e *Evaluation) tasksDue(from, to time.Duration) []drill.Task {
	return filter(e.Evidence.Tasks, func(t drill.Task) bool {
		return t.Due >= from && t.Due < to && t.Outcome != drill.Unsent
	})
}

// filter returns the elements that a condition holds for.
func filter[T any](all []T, what func(T) bool) (some []T) {
	for _, v := range all {
		if what(v) {
			some = append(some, v)
		}
	}
	return some
}

// scenarioTasks are the tasks of the scenario itself, without baseline and recovery.
func (e *Evaluation) scenarioTasks() []drill.Task { return e.tasksDue(0, e.spec.Duration) }

// hitByFault says whether a fault hit a call of a task.
func (e *Evaluation) hitByFault(t drill.Task) bool {
	return slices.ContainsFunc(e.callsByTask[t.ID], func(c drill.Call) bool { return c.Fault != "" })
}

// lastCall is the call that the task's answer came from.
func (e *Evaluation) lastCall(t drill.Task) (drill.Call, bool) {
	calls := e.callsByTask[t.ID]
	if len(calls) == 0 {
		return drill.Call{}, false
	}
	return calls[len(calls)-1], true
}

// brokenByFault says whether a fault broke the answer of a call.
func brokenByFault(c drill.Call) bool {
	switch c.Fault {
	case fault.Status:
		return c.Status >= 400
	case fault.Reset, fault.Refuse:
		return c.Status == 0
	case fault.Truncate:
		return !c.CleanEOF // otherwise it is the fault that did not work
	}
	return false
}

// afterRollback says whether a task that waits at a time may have been admitted in pass-through.
func (e *Evaluation) afterRollback(at time.Duration) bool {
	t, ok := e.stepResult(drill.StepRollback)
	return ok && t.Err == "" && at >= t.Requested
}

// rollbackEnd is when the end of a rollback was requested: by reverting it, or by a later step.
func (e *Evaluation) rollbackEnd(rollback StepResult) time.Duration {
	over := e.Evidence.At
	if st := rollback.Step; rollback.Reverted {
		over = rollback.RevertedAt
		if st.For > 0 {
			over = min(over, st.At+st.For)
		}
	}
	for _, t := range e.Steps {
		if t.Step.Kind == drill.StepRestore && t.Err == "" && t.Requested >= rollback.Completed {
			over = min(over, t.Requested)
		}
	}
	return over
}
