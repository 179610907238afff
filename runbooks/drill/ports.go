package drill

import (
	"context"
	"errors"
	"time"
)

// An EnvironmentFactory builds what a run works on.
type EnvironmentFactory interface {
	// Open returns the stage of a run, ready and without load: nothing befalls
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
	// Close stops the load, lets go of everything and returns when it is gone. It
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
	// Canary does to one task of its own what a drill would do to many, by a fault
	// on a way that nothing else takes, clears it, and returns how long clearing
	// took. An error says that the brakes do not work.
	Canary(ctx context.Context) (took time.Duration, err error)
}

// A Injector is where faults and steps are put.
type Injector interface {
	// Inject begins a fault. It ends by itself when ttl of the wall clock has
	// passed without Renew, where it works and whatever else hangs.
	Inject(ctx context.Context, way FaultTarget, i Injection, ttl time.Duration) (Lease, error)
	// Clear ends all faults and lets go of the calls they hold. It confirms by
	// looking, at the place where faults work.
	Clear(ctx context.Context) (ClearResult, error)
	// Do takes a step, and returns how to take it back. An error means that nothing
	// was done, or has been taken back already.
	RunStep(ctx context.Context, s Step) (undo func(ctx context.Context) error, err error)
}

// A Lease is a fault that ends by itself.
type Lease interface {
	// Renew puts the end off. ErrLeaseExpired: it has ended already.
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

// ClearResult is what came of clearing.
type ClearResult struct {
	Took      time.Duration // of the wall clock
	Held      int           // calls that a fault still holds; 0 if it worked
	Confirmed bool          // somebody looked, and no fault is left
	Released  int           // calls that were held until then
}

// Production is what a drill must leave alone.
type Production interface {
	// Ready says whether a run may begin. A *StopError says why not: an open page,
	// pass-through, no budget left, live not allowed.
	Ready(ctx context.Context, r Run) error
	// Validate says whether a run may go on, a few times a second. A *StopError says
	// why not: a page that the drill did not cause, and for a live run a change of
	// mode.
	Check(ctx context.Context, r Run) error
	// ProductionDrift says how much of a twin's run is found in production: tasks, samples,
	// incidents and messages that bear the run's mark, and how much was looked at.
	// For a live run, the tasks befallen that should not have been.
	Drift(ctx context.Context, r Run) (Reading, error)
}

// StopError says why a run may not begin or go on.
type StopError struct {
	Reason string // a clause: a page is open: turnaround_p95 of default
	Page   bool   // because of a page
	Mode   bool   // because of the mode of a pool
	Budget bool   // because the error budget is spent
}

// Errored is the reason.
func (e *StopError) Error() string { return e.Reason }

// Reading is a value that somebody saw.
type Reading struct {
	Measured    bool    // false: there was nothing to see, Why says why
	NotObserved bool    // what should have come did not; Value is how long was waited
	Value       float64 // in the unit of its measure
	Samples     int     // that it rests on
	Source      string  // by whom, in words: generator, endpoint, Slack
	Reason      string  // for people: what made the value, or why there is none
}

// Errors of the ports.
var ErrLeaseExpired = errors.New("the lease has lapsed")
