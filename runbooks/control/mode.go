package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"headgate/internal/writebehind"
	"headgate/proxy/admission"
)

// Actor is who asks for something, and through which interface.
type Actor struct {
	Name string
	Via  Via
}

// Via is the interface through which a request came.
type Via string

// The interfaces.
const (
	ViaAPI      Via = "api"      // the admin API, the commands included
	ViaRequest  Via = "request"  // a request queued in the journal by a command
	ViaSettings Via = "settings" // the settings, at a pool's first start
	ViaSlack    Via = "slack"    // a button or a command in Slack
	ViaPage     Via = "page"     // a page of the admin listener
	ViaEngine   Via = "engine"   // the automatic rollback
	ViaDrill    Via = "drill"    // a drill that restores what it found
)

// Vias returns every Via, in a fixed order.
func Vias() []Via {
	return []Via{ViaAPI, ViaRequest, ViaSettings, ViaSlack, ViaPage, ViaEngine, ViaDrill}
}

// ModeAction is what a ModeRequest asks for.
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
	Expected    *admission.Mode // refuse unless every pool is in this mode; nil: any mode
	Since       *time.Time      // refuse unless every pool entered its mode at this time; nil: any time
	DropOverdue bool            // reject queued tasks that can no longer finish in time
	Actor       string
	Via         Via
	Reason      string
}

// ModeChange is what a request did to one pool. It is recorded and never altered.
type ModeChange struct {
	ID     string     `json:"id"` // UUIDv7; empty for a change that was not made
	At     time.Time  `json:"at"` // UTC, to the millisecond
	Pool   string     `json:"pool"`
	Action ModeAction `json:"action"`

	From        admission.Mode `json:"from"`
	To          admission.Mode `json:"to"`
	RestoreMode admission.Mode `json:"before"` // what Restore returns to, while in passthrough

	Actor         string `json:"actor"`
	Via           Via    `json:"via"`
	Reason        string `json:"reason"`
	Running       int    `json:"running"` // tasks in flight at that moment, all kept
	Queued        int    `json:"queued"`  // tasks queued at that moment, all kept but for Dropped
	Dropped       int    `json:"dropped"` // queued tasks that DropOverdue rejected
	RequestNumber int64  `json:"request"` // number of the queued request, 0 if there was none
	Writer        string `json:"writer"`  // the process that made it
}

// PoolChange is a change and the queue that it left behind.
type PoolChange struct {
	ModeChange
	Overdue int     `json:"overdue"` // of the tasks still queued, how many can no longer finish in time
	DrainS  float64 `json:"drain_s"` // seconds until every queued task has a permit, projected
}

// ModeState is a pool's mode and how it came to it. It survives restarts.
type ModeState struct {
	Pool        string         `json:"pool"`
	Mode        admission.Mode `json:"mode"`
	RestoreMode admission.Mode `json:"before"` // what Restore returns to, while in passthrough
	Since       time.Time      `json:"since"`
	Actor       string         `json:"by"`
	Reason      string         `json:"reason"`
	Via         Via            `json:"via"`       // of the latest change; empty: unknown
	ChangeID    string         `json:"change_id"` // of the latest change; empty: unknown
}

// Errors that requests are refused with. Nothing is changed then.
var (
	ErrNoPool       = errors.New("no such pool")
	ErrModeMismatch = errors.New("the pool is in another mode than expected")
)

// NoPoolError is an ErrNoPool that lists the pools.
type NoPoolError struct {
	Pool  string
	Pools []string
}

// Error names the pool.
func (e *NoPoolError) Error() string { return fmt.Sprintf("pool %.64q: %v", e.Pool, ErrNoPool) }

// Unwrap returns ErrNoPool.
func (e *NoPoolError) Unwrap() error { return ErrNoPool }

// ModeMismatchError is an ErrModeMismatch that shows the pools in another mode, or in it since another time.
type ModeMismatchError struct {
	Expected *admission.Mode
	Current  []ModeState
}

// Error says who changed the mode, and when.
func (e *ModeMismatchError) Error() string {
	var all []string
	for _, s := range e.Current {
		all = append(all, fmt.Sprintf("pool %q is in %s since %s by %s", s.Pool, s.Mode, formatTime(s.Since), s.Actor))
	}
	text := strings.Join(all, ", ")
	if e.Expected != nil {
		text = fmt.Sprintf("%s was expected, but %s", e.Expected, text)
	}
	return text
}

// Unwrap returns ErrModeMismatch.
func (e *ModeMismatchError) Unwrap() error { return ErrModeMismatch }

// QueuedRequest is a request that a command left in the journal because it could not reach the running process.
// Requests are carried out once, by their number.
type QueuedRequest struct {
	Number int64
	At     time.Time
	Mode   ModeRequest
}

// Journal records modes. Its methods must be safe for concurrent use and must obey their context.
type Journal interface {
	// RecordChanges writes changes, the states that they lead to, and that all requests up to number seen have been
	// processed: all or nothing. A change that is there already is left alone, so that an attempt of unknown outcome
	// can be repeated; a number lower than the recorded one changes nothing.
	RecordChanges(ctx context.Context, changes []ModeChange, seen int64) error
	// ModeStates returns the recorded state of every pool ever seen.
	ModeStates(context.Context) ([]ModeState, error)
	// QueuedRequests returns the requests with numbers above after and above the highest one recorded as processed,
	// in order, a bounded number of them. An invalid one has an empty ModeAction.
	QueuedRequests(ctx context.Context, after int64) ([]QueuedRequest, error)
}

// Bounds of a pause.
const (
	DefaultPause = 30 * time.Minute
	MaxPause     = 24 * time.Hour
)

// ErrNotPaused says that there is nothing to resume.
var ErrNotPaused = errors.New("the pool is not paused")

// Pause keeps a pool from granting permits, for maintenance of its endpoint.
// Arriving tasks wait, or are refused by the ordinary rules.
type Pause struct {
	Pool   string    `json:"pool"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // zero: it has ended
	Actor  string    `json:"by"`
	Via    Via       `json:"via"`
	Reason string    `json:"reason"`
}

// PauseStore records pauses. Its methods may be called from any goroutine and obey
// their context.
type PauseStore interface {
	// SavePause records a pool's pause, and deletes it if Until is zero.
	SavePause(context.Context, Pause) error
	// Pauses returns the recorded pauses, expired ones included.
	Pauses(context.Context) ([]Pause, error)
}

// Pauses owns the pauses of all pools: applied at once, recorded after, as modes
// are. Its methods may be called from any goroutine.
type Pauses struct {
	journal PauseStore
	modes   *Controller
	log     *slog.Logger
	queue   *writebehind.Queue[[]Pause]

	mu    sync.Mutex
	pools map[string]Pause
}

// NewPauses returns Pauses for the pools of a Controller.
func NewPauses(journal PauseStore, modes *Controller, log *slog.Logger, metrics *Metrics) *Pauses {
	return &Pauses{
		journal: journal, modes: modes, log: log, pools: make(map[string]Pause),
		queue: writebehind.New(writebehind.Config[[]Pause]{
			Batch: writebehind.Latest(func(p Pause) string { return p.Pool }),
			Write: func(ctx context.Context, b []Pause) error { return journal.SavePause(ctx, b[0]) },
			OnError: func(err error, pending int) {
				metrics.countError("record_pause")
				log.Error("pause applied but not recorded, retrying", "pending", pending, "error", err)
			},
		}),
	}
}

// Load applies the pauses that have not expired, and keeps those of unknown pools
// until PoolAdded. Call it once, after the Controller has its pools. A clock
// that was set back makes none longer than MaxPause.
func (p *Pauses) Load(ctx context.Context, now time.Time) error {
	all, err := p.journal.Pauses(ctx)
	if err != nil {
		return fmt.Errorf("read the pauses from the journal: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range all {
		p.pools[one.Pool] = one
		p.applyLocked(now, one)
	}
	return nil
}

// PoolAdded applies the pause of a pool that was added to the Controller after Load, if it
// has one that has not expired.
func (p *Pauses) PoolAdded(now time.Time, pool string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applyLocked(now, p.pools[pool])
}

func (p *Pauses) applyLocked(now time.Time, one Pause) {
	left := min(one.Until.Sub(now), MaxPause)
	if gate := p.modes.gate(one.Pool); gate != nil && left > 0 && gate.Snapshot(now).PausedUntil.IsZero() {
		gate.Pause(now, now.Add(left))
	}
}

// Get returns a pool's pause, false if it is not paused.
func (p *Pauses) Get(now time.Time, pool string) (Pause, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pools[pool], !p.until(now, pool).IsZero()
}

// until returns when a pool's pause ends, zero if the gate is not paused.
func (p *Pauses) until(now time.Time, pool string) time.Time {
	if gate := p.modes.gate(pool); gate != nil {
		return gate.Snapshot(now).PausedUntil
	}
	return time.Time{}
}

// set applies a pause, or its end if Until is zero, and waits for the record for a
// bounded time. It reports whether it is recorded.
func (p *Pauses) set(ctx context.Context, now time.Time, one Pause) (recorded bool, err error) {
	gate := p.modes.gate(one.Pool)
	if gate == nil {
		return false, &NoPoolError{Pool: one.Pool}
	}
	p.mu.Lock()
	if one.Until.IsZero() {
		gate.Resume(now)
	} else {
		gate.Pause(now, now.Add(one.Until.Sub(one.Since)))
	}
	p.pools[one.Pool] = one
	p.queue.Add([]Pause{one})
	p.mu.Unlock()
	p.log.Info("pool pause changed", "pool", one.Pool, "until", one.Until,
		"by", one.Actor, "via", one.Via, "reason", one.Reason)
	ctx, cancel := context.WithTimeout(ctx, recordWaitTimeout)
	defer cancel()
	recorded = p.queue.Wait(ctx, func(b []Pause) bool {
		return slices.ContainsFunc(b, func(q Pause) bool { return q.Pool == one.Pool })
	})
	return recorded, nil
}

// Run records pauses until ctx ends, and makes a last attempt then.
func (p *Pauses) Run(ctx context.Context) { p.queue.Run(ctx) }
