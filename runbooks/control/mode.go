package control

import (
	"context"
	"time"

	"headgate/proxy/admission"
)

// Via is the way an order came.
type Via string

// The ways in which orders come.
const (
	ViaAPI      Via = "api"      // the admin API, the commands included
	ViaRequest  Via = "request"  // a request left in the journal
	ViaSettings Via = "settings" // the settings, at a pool's first start
	ViaSlack    Via = "slack"    // a button or a command in Slack
	ViaPage     Via = "page"     // a page of the admin plane
	ViaEngine   Via = "engine"   // the engine by itself
	ViaDrill    Via = "drill"    // a drill that puts back what it found
)

// Vias returns every way, in a fixed order.
func Vias() []Via {
	return []Via{ViaAPI, ViaRequest, ViaSettings, ViaSlack, ViaPage, ViaEngine, ViaDrill}
}

// ModeAction is what an order asks for.
type ModeAction string

// The actions on modes.
const (
	Rollback    ModeAction = "rollback" // to passthrough
	Restore     ModeAction = "restore"  // from passthrough to the mode before, from observe to enforce
	SetMode     ModeAction = "mode"     // to a named mode
	InitialMode ModeAction = "first"    // the mode of a pool that is seen for the first time
)

// ModeRequest asks for a change of mode.
type ModeRequest struct {
	Action      ModeAction
	Mode        admission.Mode  // for SetMode
	Pool        string          // empty: all pools
	Expected    *admission.Mode // refuse the order if a pool is in another mode; nil: do not ask
	Since       *time.Time      // refuse the order if a pool came to its mode at another time; nil: do not ask
	DropOverdue bool            // refuse the waiting tasks that can no longer end in time
	Actor       string
	Via         Via
	Reason      string
}

// ModeChange is what an order did to one pool. It is recorded and never altered.
type ModeChange struct {
	ID            string    // UUIDv7
	Writer        string    // the process that made it
	At            time.Time // UTC, to the millisecond
	Pool          string
	Action        ModeAction
	From          admission.Mode
	To            admission.Mode
	Actor         string
	Via           Via
	Reason        string
	Running       int   // tasks in flight at that moment, all kept
	Queued        int   // tasks waiting at that moment, kept but for Dropped
	Dropped       int   // waiting tasks refused because DropOverdue asked for it
	RequestNumber int64 // number of the request that asked for it, 0 if none did
	// Before is the mode that Restore will return to, while in passthrough.
	RestoreMode admission.Mode
}

// ModeState is a pool's mode and how it came to it.
type ModeState struct {
	Pool        string
	Mode        admission.Mode
	RestoreMode admission.Mode // what Restore returns to, while in passthrough
	Since       time.Time
	Actor       string
	Reason      string
	Via         Via    // the way its latest change came; empty: not known
	ChangeID    string // ID of that change; empty: not known
}

// QueuedRequest is an order that waits in the journal.
type QueuedRequest struct {
	Number int64
	At     time.Time
	Mode   ModeRequest
}

// Journal is the memory of modes. Its methods must be safe for concurrent use
// and must obey their context.
type Journal interface {
	// Record writes changes, the standings that they lead to, and that all
	// requests up to number seen have been dealt with: all or nothing. A change
	// that is there already is left alone, so that an attempt of unknown outcome
	// can be repeated; a lower number than the recorded one changes nothing.
	RecordChanges(ctx context.Context, changes []ModeChange, seen int64) error
	// Standings returns the recorded standing of every pool ever seen.
	ModeStates(context.Context) ([]ModeState, error)
	// Requests returns the requests with numbers above after, and above the
	// highest one recorded as dealt with, in their order, at most a bounded
	// number of them. One that makes no sense has an ModeRequest without an ModeAction.
	QueuedRequests(ctx context.Context, after int64) ([]QueuedRequest, error)
}
