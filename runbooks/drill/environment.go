package drill

import (
	"context"
	"fmt"
	"time"

	"headgate/proxy/fault"
)

// An EnvironmentFactory builds what a run works on.
type EnvironmentFactory interface {
	// Open returns the environment of a run, ready and without load: no fault hits
	// anything yet. What it has built when it fails, or when ctx ends, is taken
	// down again.
	Open(ctx context.Context, r Run) (Environment, error)
}

// A Environment is what one run works on. The runner owns it from Open to Close. Any
// method may be called while another hangs. All obey their context, and a runner
// does not wait for one that does not.
type Environment interface {
	Workload
	Injector
	// Close stops the load, releases everything and returns when it is gone. It
	// clears what is still injected. A second call does nothing.
	Close(ctx context.Context) error
}

// A Workload plays the load of a run and sees what becomes of it.
type Workload interface {
	// Start begins the load: baseline, scenario and recovery in one go, so that
	// nothing has to be called again for it to go on. It returns the instant of the
	// wall clock at which the scenario's time is 0; the load begins Baseline
	// before. From there on, scenario time is the time passed times Run.Speed.
	Start(ctx context.Context) (zero time.Time, err error)
	// Look returns all that has been seen so far. It is called about once a second
	// and at the end, and may be called before Start.
	Observe(ctx context.Context) (Evidence, error)
	// Canary does to one separate task what a drill would do to many, by a fault
	// on a way that nothing else takes, clears it, and returns how long clearing
	// took. An error says that the brakes do not work.
	Canary(ctx context.Context) (took time.Duration, err error)
}

// A Injector is where faults and steps are put.
type Injector interface {
	// Inject begins a fault. It expires when ttl of the wall clock has
	// passed without Renew, even if everything else hangs.
	Inject(ctx context.Context, way FaultTarget, i Injection, ttl time.Duration) (Lease, error)
	// Clear ends all faults and releases the calls they hold. It confirms by
	// looking, at the place where faults work.
	Clear(ctx context.Context) (ClearResult, error)
	// Do takes a step, and returns how to take it back. An error means that nothing
	// was done, or has been taken back already.
	RunStep(ctx context.Context, s Step) (undo func(ctx context.Context) error, err error)
}

// A Lease is a fault that expires.
type Lease interface {
	// Renew extends the lease. fault.ErrLeaseExpired: it has ended already.
	Renew(ctx context.Context, ttl time.Duration) error
	// Clear ends it now, as Injector.Clear does all.
	Clear(ctx context.Context) (ClearResult, error)
}

// FaultTarget is where a fault works.
type FaultTarget string

// The ways.
const (
	TargetUpstream FaultTarget = "upstream" // between the gate and its endpoint
	TargetSlack    FaultTarget = "slack"    // between headgate and the receiver of its messages
)

// ClearLimit is how long clearing faults may take, on the wall clock.
const ClearLimit = time.Second

// ClearResult is the result of clearing.
type ClearResult struct {
	Took      time.Duration // of the wall clock
	Held      int           // calls that a fault still holds; 0 if it worked
	Confirmed bool          // verified: no fault is left
	Released  int           // calls that were held until then
}

// Err says that a fault is left; nil: none is.
func (c ClearResult) Err() error {
	if c.Confirmed && c.Held == 0 {
		return nil
	}
	return fmt.Errorf("%d calls are still held", c.Held)
}

// Production is what a drill must leave alone.
type Production interface {
	// Ready says whether a run may begin. A *StopError says why not: an open page,
	// pass-through, no budget left, live not allowed.
	Ready(ctx context.Context, r Run) error
	// Validate says whether a run may continue, a few times a second. A *StopError says
	// why not: a page that the drill did not cause, and for a live run a change of
	// mode.
	Check(ctx context.Context, r Run) error
	// ProductionDrift says how much of a twin's run is found in production: tasks, samples,
	// incidents and messages that bear the run's mark, and how much was looked at.
	// For a live run, the tasks hit that should not have been.
	Drift(ctx context.Context, r Run) (Reading, error)
}

// StopError says why a run may not start or continue.
type StopError struct {
	Reason string // a clause: a page is open: turnaround_p95 of default
}

// Errored is the reason.
func (e *StopError) Error() string { return e.Reason }

// Reading is an observed value.
type Reading struct {
	Measured    bool    // false: there was nothing to see, Why says why
	NotObserved bool    // what should have come did not; Value is how long was waited
	Value       float64 // in the unit of its measure
	Samples     int     // that it rests on
	Source      string  // by whom, in words: generator, endpoint, Slack
	Reason      string  // for people: what made the value, or why there is none
}

// Evidence is what was seen from outside, up to At. Times are scenario time from
// the beginning of inject, negative in the baseline, unless noted. Measures are
// worked out from it by the runner, not by who saw it.
type Evidence struct {
	At          time.Duration // when it was looked
	StaleReason string        // why it cannot be relied on, such as missing telemetry; empty: fresh

	Pool    string        // name of the pool that was loaded
	Workers int           // that it has, as its settings say
	SLO     time.Duration // on turnaround
	// MaxQueueAge and MaxWaiting are the limits at which the gate refuses, as its
	// settings say: the age of the oldest task that waits, and how many may wait.
	// 0: there is none, as with another policy.
	MaxQueueAge time.Duration
	MaxWaiting  int
	// ServiceMin and ServiceMax bound how long the endpoint takes for a call. Max 0:
	// it is not known, as of a live upstream.
	ServiceMin, ServiceMax time.Duration
	ServiceMean            time.Duration // 0: not known

	Planned   int  // arrivals that were due up to At
	LoadEnded bool // the load has ended, nothing more will be sent
	KeptRate  bool // the generator sent what it should, when it should
	RateNote  string

	Tasks      []Task    // that were sent, by DueTime
	Calls      []Call    // that the gate made, by Began
	Messages   []Message // that Slack accepted, by Accepted
	SlackCalls int       // calls to Slack, refused and failed ones included
	// Incidents that the gate opened, by ID. They serve to find those that nobody
	// was notified of; they serve no other purpose.
	Incidents []string
	FaultHits map[FaultTarget]int // calls that a fault hit, as counted by the injector
	// Lulls are times at which the machine ran no process, the generator included.
	Stalls []Stall
	// Repeated are messages that Slack accepted again, although nothing had made it
	// doubtful that it had accepted them before.
	DuplicateMessages int
	// Unheeded says of orders what the gate says of itself after them, where that is
	// not what was ordered.
	UnappliedRequests []string
	// Probes are tries to write to the record, from outside.
	WriteProbes []WriteProbe
}

// Stall is a time at which the machine ran no process.
type Stall struct {
	At   time.Duration
	Took time.Duration // on the wall clock
}

// WriteProbe is a try to write to the record.
type WriteProbe struct {
	At       time.Duration
	Writable bool // it could be written
}

// MaxTasks bounds the tasks of a run.
const MaxTasks = 50_000

// TaskOutcome is how a task ended for its client.
type TaskOutcome string

// The ends.
const (
	Pending  TaskOutcome = ""         // it has not ended
	Served   TaskOutcome = "served"   // a whole answer, with status 2xx
	Refused  TaskOutcome = "refused"  // 429, or 503 with a Headgate-Reason
	Broken   TaskOutcome = "broken"   // 2xx, and then visibly cut off or with an error event
	Errored  TaskOutcome = "error"    // any other status, or no connection
	TimedOut TaskOutcome = "timedout" // the client gave up
	Unsent   TaskOutcome = "unsent"   // the generator could not send it, or was stopped
)

// Task is one that the generator sent.
type Task struct {
	ID    int           // calls bear it
	Due   time.Duration // when it should have been sent; turnaround counts from here
	Sent  time.Duration
	Ended time.Duration // zero while it is Pending

	Outcome    TaskOutcome
	Status     int           // 0: none came
	RetryAfter string        // of a refusal, as it came
	Reason     string        // of a refusal
	ConnError  string        // what the client's connection said, if that ended the task
	FirstByte  time.Duration // first byte of the answer's body; zero without one
	Bytes      int64         // of that body that came
	CleanEOF   bool          // the body came to its end as HTTP has it, and told of no error, whatever was missing
	Checksum   uint64        // of these bytes, as Call.Checksum; 0: not taken
}

// Call is one that the gate made on its way upstream. It is seen on the gate's
// side of the faults, and at the endpoint behind them.
type Call struct {
	Task      int           // that it is for; -1: of no task of the run
	Started   time.Duration // when the gate made it
	Ended     time.Duration // when the gate was done with it; zero while Open
	FirstByte time.Duration // first byte of the body that the gate got; zero without one
	Open      bool
	Fault     fault.Kind // that hit it; empty: none
	Status    int        // that the gate got; 0: none
	Bytes     int64      // of the body that the gate got
	CleanEOF  bool       // that body came to its end as HTTP has it
	Checksum  uint64     // of these bytes, as Task.Checksum; 0: not taken

	Reached  bool          // the endpoint saw it
	Arrived  time.Duration // there
	Finished time.Duration // when the endpoint was done; zero while it is Working
	Working  bool
	SlotWait time.Duration // there, for one of its slots
	Complete bool          // the endpoint answered to the end
}
