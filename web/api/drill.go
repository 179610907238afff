package api

import (
	"context"
	"time"

	"headgate/runbooks/drill"
)

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
	Drills(ctx context.Context, now time.Time) (drill.States, error)
	// Live returns a copy of a run as it is in memory, ahead of the record; false if
	// no such run is going on.
	Live(id string) (drill.Run, bool)
}

// DrillController takes orders. Whoever implements it puts them into the audit.
type DrillController interface {
	// Start claims a run and begins it, or with DryRun only says what it would do. It
	// returns before the run has ended. drill.ErrNoDrill, drill.ErrFrozen, a
	// *drill.BusyError and a *drill.RefusedError say why not.
	Start(ctx context.Context, o drill.StartRequest) (drill.StartResult, error)
	// Abort stops a run and returns it as soon as its faults are cleared.
	// drill.ErrNoRun; a *drill.RefusedError if it has ended already.
	Abort(ctx context.Context, id, by, reason string) (drill.Run, error)
	// Freeze stops what runs and refuses new runs, or with On false lets drills run
	// again. It returns how things stand then.
	Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error)
}

// DrillRunReader reads the record of runs. All methods obey their context.
type DrillRunReader interface {
	// Runs returns a page, newest first, each run without its series, messages and
	// undone steps, and the key of the next page. control.ErrUnknownCursor: After is no key.
	Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error)
	// Run returns one with all of it, or drill.ErrNoRun.
	Run(ctx context.Context, id string) (drill.Run, error)
	// History sums up what has ended, for a calendar and for trends.
	History(ctx context.Context, q drill.HistoryQuery) (drill.History, error)
}
