package drill

import (
	"context"
	"fmt"
	"time"

	"headgate/proxy/fault"
)

// An EnvironmentFactory builds what a run acts on.
type EnvironmentFactory interface {
	// Open returns the environment of a run, ready, without load and without faults. If it fails, or ctx ends, it
	// releases what it has built.
	Open(ctx context.Context, r Run) (Environment, error)
}

// An Environment is what one run acts on. The runner owns it from Open to Close. Any method may be called while another
// hangs. All obey their context; the runner does not wait for one that does not.
type Environment interface {
	Workload
	Injector
	// Close clears all faults, stops the load and releases everything. A second call does nothing.
	Close(ctx context.Context) error
}

// A Workload sends the load of a run and observes the result.
type Workload interface {
	// Start begins the load: baseline, scenario and recovery, without a further call. It returns the instant of the wall
	// clock at which scenario time is 0; the load begins Baseline before. Scenario time passes Run.Speed times as fast.
	Start(ctx context.Context) (zero time.Time, err error)
	// Observe returns all evidence so far. It is called about once a second and at the end, and may be called before
	// Start.
	Observe(ctx context.Context) (Evidence, error)
	// Canary injects a fault into one separate call that nothing else shares, clears it, and returns how long clearing
	// took. An error says that faults cannot be cleared.
	Canary(ctx context.Context) (took time.Duration, err error)
}

// An Injector injects faults and runs steps.
type Injector interface {
	// Inject begins a fault. It expires when ttl of the wall clock has passed without Renew, even if everything else
	// hangs.
	Inject(ctx context.Context, target FaultTarget, i Injection, ttl time.Duration) (Lease, error)
	// Clear ends all faults and releases the calls they hold. The injector itself confirms that none is left.
	Clear(ctx context.Context) (ClearResult, error)
	// RunStep runs a step, and returns how to revert it. After an error nothing is left to revert.
	RunStep(ctx context.Context, s Step) (revert func(ctx context.Context) error, err error)
}

// A Lease is a fault that expires.
type Lease interface {
	// Renew extends the lease. fault.ErrLeaseExpired: it has ended already.
	Renew(ctx context.Context, ttl time.Duration) error
	// Clear ends the fault now, as Injector.Clear ends all.
	Clear(ctx context.Context) (ClearResult, error)
}

// FaultTarget is the path that a fault acts on.
type FaultTarget string

// The targets of faults.
const (
	TargetUpstream FaultTarget = "upstream" // between the gate and its endpoint
	TargetSlack    FaultTarget = "slack"    // between headgate and the receiver of its messages
)

// ClearLimit is how long clearing faults may take, on the wall clock.
const ClearLimit = time.Second

// ClearResult is the result of clearing.
type ClearResult struct {
	Took      time.Duration // of the wall clock
	Held      int           // calls that a fault still holds; 0: none
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

// Production is what a drill must not disturb.
type Production interface {
	// Ready says whether a run may begin. A *StopError says why not: an open page, pass-through, no budget left, live
	// not allowed.
	Ready(ctx context.Context, r Run) error
	// Check says whether a run may continue; it is called a few times a second. A *StopError says why not: a page that
	// the drill did not cause, and for a live run a change of mode.
	Check(ctx context.Context, r Run) error
	// Drift counts tasks of a twin's run in production, and for a live run the calls hit outside its scope.
	Drift(ctx context.Context, r Run) (Reading, error)
}

// StopError says why a run may not start or continue.
type StopError struct {
	Reason string // a clause: a page is open: turnaround_p95 of default
}

// Error is the reason.
func (e *StopError) Error() string { return e.Reason }

// Reading is an observed value.
type Reading struct {
	Measured    bool    // false: it cannot be known, Reason says why
	NotObserved bool    // the expected event did not occur; Value is the time waited
	Value       float64 // in the unit of its measure
	Samples     int     // on which it is based
	Source      string  // who observed it, for people: generator, endpoint, Slack
	Reason      string  // for people: how the value came about, or why there is none
}

// Evidence is what was observed from outside, up to At. Times are scenario time from the beginning of inject, negative
// in the baseline, unless noted.
type Evidence struct {
	At          time.Duration // of the observation
	StaleReason string        // why it cannot be relied on, such as missing telemetry; empty: fresh

	Pool    string        // name
	Workers int           // by its settings
	SLO     time.Duration // on turnaround
	// MaxQueueAge and MaxWaiting are the limits of the policy, by its settings: the age of the oldest queued task, and
	// how many may wait. 0: there is none, as with another policy.
	MaxQueueAge time.Duration
	MaxWaiting  int
	// ServiceMin and ServiceMax bound the endpoint's service time. Max 0: not known, as of a live upstream.
	ServiceMin, ServiceMax time.Duration
	ServiceMean            time.Duration // 0: not known

	Planned   int  // arrivals that were due up to At
	LoadEnded bool // nothing more will be sent
	KeptRate  bool // the generator sent all tasks, in time
	RateNote  string

	Tasks      []Task    // that were sent, by Due
	Calls      []Call    // that the gate made, by Started
	Messages   []Message // that Slack accepted, by Accepted
	SlackCalls int       // calls to Slack, refused and failed ones included
	// Incidents are the IDs of incidents that were opened. They serve only to find those without a message.
	Incidents []string
	FaultHits map[FaultTarget]int // calls that a fault hit, as counted by the injector
	Stalls    []Stall
	// DuplicateMessages counts messages that Slack accepted again although their first delivery was not in doubt.
	DuplicateMessages int
	// UnappliedRequests name mode changes after which the gate shows another mode.
	UnappliedRequests []string
	WriteProbes       []WriteProbe
}

// Stall is a time at which the machine ran no process, the generator included.
type Stall struct {
	At   time.Duration
	Took time.Duration // on the wall clock
}

// WriteProbe is an attempt to write to the record from outside.
type WriteProbe struct {
	At       time.Duration
	Writable bool
}

// MaxTasks bounds the tasks of a run.
const MaxTasks = 50_000

// TaskOutcome is how a task ended for its client.
type TaskOutcome string

// The outcomes of tasks.
const (
	Pending  TaskOutcome = ""         // it has not ended
	Served   TaskOutcome = "served"   // a complete answer, with status 2xx
	Refused  TaskOutcome = "refused"  // 429, or 503 with a Headgate-Reason
	Broken   TaskOutcome = "broken"   // 2xx, and then visibly cut off or with an error event
	Errored  TaskOutcome = "error"    // any other status, or no connection
	TimedOut TaskOutcome = "timedout" // the client gave up
	Unsent   TaskOutcome = "unsent"   // the generator could not send it, or was stopped
)

// Task is one that the generator sent.
type Task struct {
	ID    int           // calls carry it
	Due   time.Duration // when it should have been sent; turnaround counts from here
	Sent  time.Duration
	Ended time.Duration // zero while it is Pending

	Outcome    TaskOutcome
	Status     int           // 0: none came
	RetryAfter string        // of a refusal, as received
	Reason     string        // of a refusal
	ConnError  string        // error of the client's connection that ended the task
	FirstByte  time.Duration // first byte of the answer's body; zero without one
	Bytes      int64         // of that body that were received
	CleanEOF   bool          // the body ended as HTTP requires and reported no error, complete or not
	Checksum   uint64        // of these bytes, as Call.Checksum; 0: not taken
}

// Call is a call that the gate made upstream. It is observed on the gate's side of the faults, and at the endpoint
// behind them.
type Call struct {
	Task      int           // that it is for; -1: of no task of the run
	Started   time.Duration // when the gate made it
	Ended     time.Duration // when the gate was done with it; zero while Open
	FirstByte time.Duration // first byte of the body that the gate got; zero without one
	Open      bool
	Fault     fault.Kind // that hit it; empty: none
	Status    int        // that the gate got; 0: none
	Bytes     int64      // of the body that the gate got
	CleanEOF  bool       // that body ended as HTTP requires
	Checksum  uint64     // of these bytes, as Task.Checksum; 0: not taken

	Reached  bool          // it reached the endpoint
	Arrived  time.Duration // there
	Finished time.Duration // when the endpoint was done; zero while it is Working
	Working  bool
	SlotWait time.Duration // there, for one of its slots
	Complete bool          // the endpoint answered to the end
}
