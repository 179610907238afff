package drill

import (
	"context"
	"time"
)

// Store stores runs and the freeze. All methods obey their context and may be called from any goroutine.
type Store interface {
	// Claim writes a run in status claimed and takes the lock that only one run can hold, in one immediate transaction,
	// and returns the fencing token. ErrClaimed, a *BusyError or ErrFrozen say why not; nothing is written then. The
	// lock lasts until the run has ended, or until lease has passed without Save: then the next claim closes the run as
	// interrupted. Claim may be repeated with the run that holds the lock, if its outcome was not known.
	Claim(ctx context.Context, now time.Time, r Run, lease time.Duration) (fence int64, err error)
	// Save writes a run and renews the lock. An ended run releases the lock, and is never changed again. ErrLockLost:
	// another process holds the lock, or the run has been closed. The series may only grow.
	Save(ctx context.Context, now time.Time, r Run) error
	// RecordNotRun writes a run that never began: skipped or missed. ErrClaimed: there is a run of that occurrence.
	RecordNotRun(ctx context.Context, r Run) error
	// CloseInterrupted closes all runs of earlier processes that have not ended, and returns them.
	CloseInterrupted(ctx context.Context, now time.Time) ([]Run, error)
	// Run returns a complete run; ErrNoRun if there is none.
	Run(ctx context.Context, id string) (Run, error)
	// Runs returns runs without their series, messages and reverts, newest first, and the key of the next page.
	Runs(ctx context.Context, q Query) (runs []Run, next string, err error)
	// Frozen says whether drills are frozen; SetFreeze changes that.
	Frozen(ctx context.Context) (Freeze, error)
	SetFreeze(ctx context.Context, f Freeze) error
}

// DueTimeStore stores the due times of schedules.
type DueTimeStore interface {
	// DueTimes returns all, by drill ID.
	DueTimes(ctx context.Context) (map[string]DueTime, error)
	SetDueTime(ctx context.Context, d DueTime) error
	DeleteDueTime(ctx context.Context, drill string) error
}

// DueTime is when a drill is due next.
type DueTime struct {
	Drill    string // ID of the spec
	Schedule string // with Zone, that Next was computed from: an edited one starts anew
	Zone     string
	Next     time.Time // UTC
}

// Query asks for runs. Empty fields ask for all.
type Query struct {
	Drill    string // ID or name
	Verdicts []Verdict
	Triggers []Trigger
	Since    time.Time
	Until    time.Time
	Running  bool   // only those that have not ended
	After    string // the key of a page
	Limit    int    // 1 to 1000
}

// BusyError names the run that holds the lock.
type BusyError struct {
	Run   string
	Drill string
	Since time.Time
}

// Error names the holder.
func (e *BusyError) Error() string {
	return "drill " + e.Drill + " is running since " + e.Since.UTC().Format(time.RFC3339) + " (run " + e.Run + ")"
}

// Unwrap makes it an ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }
