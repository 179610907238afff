package drill

import (
	"errors"
	"time"
)

// ErrNoDrill says that there is no drill of that name or ID.
var ErrNoDrill = errors.New("no such drill")

// RefusedError says why a drill was not started, a run not stopped, or a request not executed. Nothing was changed. The
// reason is shown to the actor.
type RefusedError struct{ Reason string } // a clause without a full stop

// Error is the reason.
func (e *RefusedError) Error() string { return e.Reason }

// StartRequest asks for a run by hand.
type StartRequest struct {
	Name   string // or ID
	Speed  float64
	DryRun bool
	Reason string
	Actor  string
}

// StartResult is the answer to a StartRequest.
type StartResult struct {
	Run  string // ID; empty in a dry run
	Plan Plan
}

// Plan says what a run does, before it starts.
type Plan struct {
	Drill, Name        string
	Target             Target
	Pool               string
	Speed              float64
	Scenario           time.Duration // baseline, load and recovery at most, scenario time
	WallTime           time.Duration // the same of the wall clock
	Steps              []string      // what it does and touches, in order, a line each
	Hypotheses         []string      // a line each
	Blocked            string        // why it would not start now, a clause; empty: it would
	NotificationTarget string        // a channel, or that messages go to the stand-in for Slack
}

// States are the states of all drills.
type States struct {
	Freeze Freeze
	Items  []State
}

// State is the state of one drill.
type State struct {
	Spec       Spec
	Next       []Upcoming // the next five due times; none without a schedule
	Running    string     // ID of the run in progress; empty: none
	Last       *Run       // the latest that ended, without its series; nil: none, or not known
	LastPassed time.Time  // when the latest run that passed began; zero: never, or not known
	Overdue    bool       // the last pass is older than one and a half periods
	Problems   []string   // why it cannot run as it is; none: it can
}

// Upcoming is a due time.
type Upcoming struct {
	At   time.Time // UTC
	Note string    // on clocks that go forward or back; mostly empty
}
