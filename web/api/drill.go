package api

import (
	"context"
	"errors"
	"time"

	"headgate/runbooks/drill"
)

// ErrNoDrill says that there is no drill of that name or ID.
var ErrNoDrill = errors.New("no such drill")

// DrillRefusedError is why a drill is not begun, a run not stopped, or an order not
// taken. Nothing was changed. It is shown to whoever gave the order.
type DrillRefusedError struct{ Reason string } // a clause without a full stop

// Error is the reason.
func (e *DrillRefusedError) Error() string { return e.Reason }

// DrillPorts is what drills look like from outside. All three are there, or there
// are no drills.
type DrillPorts struct {
	Catalog    DrillCatalog
	Controller DrillController
	Runs       DrillRunReader
}

// DrillCatalog shows which drills there are, and what runs.
type DrillCatalog interface {
	// DrillPorts returns the drills of the settings and the built-in ones, by name. What
	// the record holds of them is left out when it cannot be read.
	Drills(ctx context.Context, now time.Time) (DrillStates, error)
	// Live returns a copy of a run as it is in memory, ahead of the record; false if
	// no such run is going on.
	Live(id string) (drill.Run, bool)
}

// DrillController takes orders. Whoever implements it puts them into the audit.
type DrillController interface {
	// Start claims a run and begins it, or with DryRun only says what it would do. It
	// returns before the run has ended. ErrNoDrill, drill.ErrFrozen, a
	// *drill.BusyError and a *DrillRefusedError say why not.
	Start(ctx context.Context, o DrillStartRequest) (DrillStartResult, error)
	// Abort stops a run and returns it as soon as its faults are cleared.
	// drill.ErrNoRun; a *DrillRefusedError if it has ended already.
	Abort(ctx context.Context, id, by, reason string) (drill.Run, error)
	// Freeze stops what runs and refuses new runs, or with On false lets drills run
	// again. It returns how things stand then.
	Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error)
}

// DrillRunReader reads the record of runs. All methods obey their context.
type DrillRunReader interface {
	// Runs returns a page, newest first, each run without its series, messages and
	// undone steps, and the key of the next page. ErrUnknownCursor: After is no key.
	Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error)
	// Run returns one with all of it, or drill.ErrNoRun.
	Run(ctx context.Context, id string) (drill.Run, error)
	// History sums up what has ended, for a calendar and for trends.
	History(ctx context.Context, q drill.HistoryQuery) (drill.History, error)
}

// DrillStartRequest asks for a run.
type DrillStartRequest struct {
	Name   string // or ID
	Speed  float64
	DryRun bool
	Reason string
	Actor  string
}

// DrillStartResult is what came of a DrillStartRequest.
type DrillStartResult struct {
	Run  string // ID; empty in a dry run
	Plan DrillPlan
}

// DrillPlan says what a run does, before it does it.
type DrillPlan struct {
	Drill, Name        string
	Target             drill.Target
	Pool               string
	Speed              float64
	Scenario           time.Duration // baseline, load and recovery at most, scenario time
	WallTime           time.Duration // the same of the wall clock
	Steps              []string      // what is done and touched, in order, a line each
	Hypotheses         []string      // what it must show, a line each
	Blocked            string        // why it would not begin now, a clause; empty: it would
	NotificationTarget string        // a channel, or in words: the stand-in for Slack
}

// DrillStates is how all drills stand.
type DrillStates struct {
	Freeze drill.Freeze
	Items  []DrillState
}

// DrillState is how one drill stands.
type DrillState struct {
	Spec       drill.Spec
	Next       []DrillDueTime // of the next five due times; none without a schedule
	Running    string         // ID of the run that goes on; empty: none
	Last       *drill.Run     // the latest that ended; nil: none, or not known. Without its series
	LastPassed time.Time      // when it began that passed last; zero: never, or not known
	Overdue    bool           // the last pass is older than one and a half periods
	Problems   []string       // why it cannot run as it stands; none: it can
}

// DrillDueTime is a due time.
type DrillDueTime struct {
	At   time.Time // UTC
	Note string    // of clocks that go forward or back; mostly empty
}
