package drill

import (
	"context"
	"time"
)

// Store is where runs and due times are kept. All methods obey their context and
// may be called from any goroutine.
type Store interface {
	// Claim writes a run in status claimed and takes the lock that only one run can
	// hold, in one immediate transaction, and returns the fencing token. ErrClaimed,
	// a *BusyError or ErrFrozen say why not; nothing is written then. The lock lasts
	// until the run has ended, or until lease has passed without Save: then the next
	// claim closes the run as interrupted. With the run that holds the lock, Claim
	// may be repeated, when its outcome was not known.
	Claim(ctx context.Context, now time.Time, r Run, lease time.Duration) (fence int64, err error)
	// Save writes how far a run has come and renews the lock. An ended run gives
	// the lock back, and is never changed again. ErrLockLost: somebody else holds it, or
	// the run has been closed. The series may only grow.
	Save(ctx context.Context, now time.Time, r Run) error
	// Note writes a run that never began: skipped or missed. ErrClaimed: there is a
	// run of that occurrence.
	RecordNotRun(ctx context.Context, r Run) error
	// Interrupt closes all runs that have not ended, of processes that are gone,
	// and returns them.
	CloseInterrupted(ctx context.Context, now time.Time) ([]Run, error)
	// Run returns one, with all of it; ErrNoRun if there is none.
	Run(ctx context.Context, id string) (Run, error)
	// Runs returns runs without their series, messages and undone steps, newest
	// first, and the key of the next page.
	Runs(ctx context.Context, q Query) (runs []Run, next string, err error)
	// Frozen says whether drills are frozen; SetFreeze freezes or thaws.
	Frozen(ctx context.Context) (Freeze, error)
	SetFreeze(ctx context.Context, f Freeze) error
}

// DueTimeStore keeps the due times of schedules.
type DueTimeStore interface {
	// DueTimeStore returns what is kept, by drill ID.
	DueTimes(ctx context.Context) (map[string]DueTime, error)
	SetDueTime(ctx context.Context, d DueTime) error
	DeleteDueTime(ctx context.Context, drill string) error
}

// DueTime is when a drill is due next.
type DueTime struct {
	Drill    string // ID of the spec
	Schedule string // with Zone, that Next was reckoned from: an edited one starts anew
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

// BusyError says who holds the lock.
type BusyError struct {
	Run   string
	Drill string
	Since time.Time
}

// Errored names the holder.
func (e *BusyError) Error() string {
	return "drill " + e.Drill + " is running since " + e.Since.UTC().Format(time.RFC3339) + " (run " + e.Run + ")"
}

// Unwrap makes it an ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }
