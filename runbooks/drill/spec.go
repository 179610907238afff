package drill

import (
	"fmt"
	"slices"
	"time"

	"headgate/proxy/fault"
)

// Bounds of a drill.
const (
	MaxSpeed     = 100           // beyond it rules cannot be evaluated often enough
	MaxDuration  = 2 * time.Hour // of baseline, scenario and recovery together: Run.Series holds a point for each second
	MaxLiveShare = 0.25          // of production's tasks
	MaxLiveTasks = 200           // of production that a run touches, whatever its share
	MaxText      = 200           // characters of a text in a definition, except for notes
)

// Target is what a drill acts on.
type Target string

// The targets.
const (
	Twin Target = "twin" // a second gate with the pool's settings and rules; shares nothing with production
	Live Target = "live" // faults on the production upstream path of a share of tasks
)

// Spec defines a drill. It is never changed once it has been parsed.
type Spec struct {
	ID      string // stable: history and schedule refer to it, not to Name
	Name    string
	Note    string
	Owner   string // who is notified of failures, as a mention or a name
	BuiltIn bool

	Schedule string        // cron, five fields; empty: by hand only
	Zone     string        // IANA name; empty: UTC
	CatchUp  time.Duration // how late a missed occurrence may still run, once; 0: never
	Speed    float64       // unless a request has one; 1 for Live

	Target   Target
	Pool     string  // whose settings and rules are used; empty: the first pool
	Share    float64 // Live only: of the tasks, that the faults may hit at most
	Marked   bool    // Live only: only tasks with a signed drill header
	Scenario Scenario
	Expect   []Expectation
	AbortIf  []Expectation // a run stops as soon as one of these holds
	Recovery time.Duration // within which the steady state must return after the faults, scenario time
}

// TotalDuration is how long a run takes at most, in scenario time.
func (s Spec) TotalDuration() time.Duration {
	return s.Scenario.Baseline + s.Scenario.Duration + s.Recovery
}

// CheckSpeed says whether a run may have a speed.
func (s Spec) CheckSpeed(speed float64) error {
	switch {
	case s.Target == Live && speed != 1:
		return &RefusedError{"the speed of a live drill must be 1: production runs no faster"}
	case !(speed >= 1 && speed <= MaxSpeed): // nor NaN
		return &RefusedError{fmt.Sprintf("the speed must be from 1 to %d", MaxSpeed)}
	}
	return nil
}

// Scenario is the load, the service and the faults, in scenario time from the beginning of the phase inject.
type Scenario struct {
	Duration time.Duration
	Workers  int           // 0: the pool's
	Baseline time.Duration // of steady load before; 0: no such phase
	Arrivals Arrivals
	Service  string // how long the endpoint takes for a call: uniform:5s-30s
	Seed     uint64
	Faults   []Injection
	Slack    []Injection // on the path to the receiver of messages
	Steps    []Step
}

// DisturbanceStart is when the first disturbance of a scenario begins. Without a baseline the whole scenario is one.
func (s Scenario) DisturbanceStart() time.Duration {
	if s.Baseline == 0 {
		return 0
	}
	first := s.Duration
	s.eachDisturbance(func(from, _ time.Duration) { first = min(first, from) })
	if first == s.Duration {
		return 0
	}
	return first
}

// DisturbanceEnd is when the last disturbance of a scenario is over.
func (s Scenario) DisturbanceEnd() time.Duration {
	last := time.Duration(-1)
	s.eachDisturbance(func(_, to time.Duration) { last = max(last, to) })
	if last < 0 {
		return s.Duration
	}
	return min(last, s.Duration)
}

// eachDisturbance calls f with the span of each burst, fault and step. A step that is not reverted lasts to the end.
func (s Scenario) eachDisturbance(f func(from, to time.Duration)) {
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

// ExpectedTasks is how many tasks are expected in a run with a recovery of this length.
func (s Scenario) ExpectedTasks(recovery time.Duration) float64 {
	n := s.Arrivals.Rate*(s.Baseline+s.Duration).Seconds() + s.Arrivals.Rest*recovery.Seconds()
	for _, b := range s.Arrivals.Bursts {
		n += s.Arrivals.Rate * (b.Multiple - 1) * (b.To - b.From).Seconds()
	}
	return n
}

// Arrivals is the load.
type Arrivals struct {
	Rate       float64 // tasks per second, in the baseline and the scenario
	Rest       float64 // the same in the recovery; 0: no load
	Bursts     []Burst
	LargeShare float64 // of large prompts, 0 to 1
	Stream     bool
}

// Burst multiplies the rate from From (included) to To (not included).
type Burst struct {
	From, To time.Duration
	Multiple float64
}

// Injection is a fault and its time.
type Injection struct {
	fault.Fault
	From time.Duration
	For  time.Duration
}

// StepKind is something that a scenario does, other than load and faults.
type StepKind string

// The kinds of steps. All are reverted at the end of the run, in reverse order.
const (
	StepRollback   StepKind = "rollback"    // the twin's pool is set to passthrough
	StepRestore    StepKind = "restore"     // and back
	StepLockRecord StepKind = "lock_record" // another connection locks the twin's database
	StepLoseSlots  StepKind = "lose_slots"  // the endpoint works on Count calls fewer at once; the gate does not know
)

// Step is run at a time, and reverted after For if that is set.
type Step struct {
	Kind  StepKind
	At    time.Duration
	For   time.Duration
	Count int // of StepLoseSlots
}

// Measure is a value that is observed in a run.
type Measure string

// The measures. Shares are parts of 1, times scenario seconds unless noted.
const (
	LateShare         Measure = "late_share"           // of served tasks, those later than the SLO
	P95               Measure = "p95_turnaround"       // of served tasks, from the intended arrival
	BadRetryAfter     Measure = "bad_retry_after"      // refusals without a Retry-After from 1 to 59
	RefusedShare      Measure = "refused_share"        // of arrivals
	RefusedInBaseline Measure = "refused_in_baseline"  // refusals while nothing was wrong
	OverLimit         Measure = "in_flight_over_limit" // most calls at the endpoint at once, above the workers
	TimeToWarn        Measure = "time_to_warn"         // from the first fault or burst to the warning's acceptance
	TimeToPage        Measure = "time_to_page"         // the same of the page, accepted by Slack
	TimeToResolve     Measure = "time_to_resolve"      // from the end of faults and bursts to the resolved message
	Pages             Measure = "pages"                // accepted by Slack
	MessageFaults     Measure = "message_faults"       // wrong or missing in messages: pool, value, limit, DRILL
	DrainedWithin     Measure = "drained_within"       // from the end of the load to the last answer
	RollbackTime      Measure = "flip_time"            // from the rollback to the first admitted task; real seconds
	RestoreTime       Measure = "restore_time"         // from the request to the first refusal; real seconds
	TasksLost         Measure = "tasks_lost"           // sent, and neither answered nor refused nor ended by the fault
	FalseCompletions  Measure = "false_ends"           // broken answers that looked complete
	ErrorShare        Measure = "error_share"          // of arrivals: errors that the client saw
	ServedShare       Measure = "served_share"         // of arrivals: answered in full
	ProductionDrift   Measure = "production_drift"     // of production's counters by the drill's tasks
	MessagesLost      Measure = "messages_lost"        // incidents that no message had announced at the end
)

// Compare relates a value to its limit.
type Compare string

// The comparators.
const (
	AtMost  Compare = "<="
	AtLeast Compare = ">="
	Equal   Compare = "=="
)

// Expectation sets a limit to a measure.
type Expectation struct {
	Measure Measure `json:"name"` // these names are those of a Hypothesis; a Spec has others
	Compare Compare `json:"compare"`
	Limit   float64 `json:"limit"` // in Unit
	Unit    string  `json:"unit"`  // s, ratio, tasks, messages
}
