package drill

import (
	"context"
	"errors"
	"time"
)

// An Opener builds what a run works on.
type Opener interface {
	// Open returns the stage of a run, ready and without load: nothing befalls
	// anything yet. What it has built when it fails, or when ctx ends, is taken
	// down again.
	Open(ctx context.Context, r Run) (Stage, error)
}

// A Stage is what one run works on. The runner owns it from Open to Close. Any
// method may be called while another hangs. All obey their context, and a runner
// does not wait for one that does not.
type Stage interface {
	Scene
	Place
	// Close stops the load, lets go of everything and returns when it is gone. It
	// clears what is still injected. A second call does nothing.
	Close(ctx context.Context) error
}

// A Scene plays the load of a run and sees what becomes of it.
type Scene interface {
	// Start begins the load: baseline, scenario and recovery in one go, so that
	// nothing has to be called again for it to go on. It returns the instant of the
	// wall clock at which the scenario's time is 0; the load begins Baseline
	// before. From there on, scenario time is the time passed times Run.Speed.
	Start(ctx context.Context) (zero time.Time, err error)
	// Look returns all that has been seen so far. It is called about once a second
	// and at the end, and may be called before Start.
	Look(ctx context.Context) (Evidence, error)
	// Canary does to one task of its own what a drill would do to many, by a fault
	// on a way that nothing else takes, clears it, and returns how long clearing
	// took. An error says that the brakes do not work.
	Canary(ctx context.Context) (took time.Duration, err error)
}

// A Place is where faults and steps are put.
type Place interface {
	// Inject begins a fault. It ends by itself when ttl of the wall clock has
	// passed without Renew, where it works and whatever else hangs.
	Inject(ctx context.Context, way Way, i Injection, ttl time.Duration) (Lease, error)
	// Clear ends all faults and lets go of the calls they hold. It confirms by
	// looking, at the place where faults work.
	Clear(ctx context.Context) (Cleared, error)
	// Do takes a step, and returns how to take it back. An error means that nothing
	// was done, or has been taken back already.
	Do(ctx context.Context, s Step) (undo func(ctx context.Context) error, err error)
}

// A Lease is a fault that ends by itself.
type Lease interface {
	// Renew puts the end off. ErrLapsed: it has ended already.
	Renew(ctx context.Context, ttl time.Duration) error
	// Clear ends it now, as Place.Clear does all.
	Clear(ctx context.Context) (Cleared, error)
}

// Way is where a fault works.
type Way string

// The ways.
const (
	ToUpstream Way = "upstream" // between the gate and its endpoint
	ToSlack    Way = "slack"    // between headgate and the receiver of its messages
)

// Cleared is what came of clearing.
type Cleared struct {
	Took      time.Duration // of the wall clock
	Held      int           // calls that a fault still holds; 0 if it worked
	Confirmed bool          // somebody looked, and no fault is left
	LetGo     int           // calls that were held until then
}

// Production is what a drill must leave alone.
type Production interface {
	// Ready says whether a run may begin. A *StopError says why not: an open page,
	// pass-through, no budget left, live not allowed.
	Ready(ctx context.Context, r Run) error
	// Check says whether a run may go on, a few times a second. A *StopError says
	// why not: a page that the drill did not cause, and for a live run a change of
	// mode.
	Check(ctx context.Context, r Run) error
	// Drift says how much of a twin's run is found in production: tasks, samples,
	// incidents and messages that bear the run's mark, and how much was looked at.
	// For a live run, the tasks befallen that should not have been.
	Drift(ctx context.Context, r Run) (Reading, error)
}

// StopError says why a run may not begin or go on.
type StopError struct {
	Why    string // a clause: a page is open: turnaround_p95 of default
	Page   bool   // because of a page
	Mode   bool   // because of the mode of a pool
	Budget bool   // because the error budget is spent
}

// Error is the reason.
func (e *StopError) Error() string { return e.Why }

// Reading is a value that somebody saw.
type Reading struct {
	Known   bool    // false: there was nothing to see, Why says why
	Never   bool    // what should have come did not; Value is how long was waited
	Value   float64 // in the unit of its measure
	Samples int     // that it rests on
	Seen    string  // by whom, in words: generator, endpoint, Slack
	Why     string  // for people: what made the value, or why there is none
}

// Errors of the ports.
var ErrLapsed = errors.New("the lease has lapsed")
