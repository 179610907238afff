package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"headgate/proxy/admission"
)

// Errors that orders are refused with.
var (
	ErrNoPool       = errors.New("no such pool")
	ErrModeMismatch = errors.New("the pool is in another mode than expected")
)

// recordWaitTimeout is how long the giver of an order waits for the record.
const recordWaitTimeout = 2 * time.Second

// maxPendingChanges bounds the changes that wait for the journal.
const maxPendingChanges = 10_000

// Config is what a Controller is made of.
type Config struct {
	Journal Journal
	Writer  string // names this process in the record
	Log     *slog.Logger
	Metrics *Metrics

	// Applied hears of every change at once, recorded or not, and Recorded of those
	// that have been recorded. Both may be nil and must not block; Applied must not
	// call the Controller.
	OnApplied  func(ModeChange)
	OnRecorded func([]ModeChange)
}

// Controller owns the modes of all pools: nobody else changes them. Its methods
// may be called from any goroutine.
type Controller struct {
	journal Journal
	writer  string
	log     *slog.Logger
	metrics *Metrics
	wake    chan struct{} // holds one: there is something to record
	hooks   struct {
		applied  func(ModeChange)
		recorded func([]ModeChange)
	}

	mu                  sync.Mutex
	pools               []*pool
	inactive            map[string]ModeState // recorded ones of pools that are not here
	pending             []ModeChange         // applied, not recorded yet, in order
	dropped             int                  // that did not fit into pending
	recordedCh          chan struct{}        // closed when something was recorded, then made anew
	lastRequest         int64                // highest request dealt with
	lastRequestRecorded int64                // highest one recorded as dealt with
}

type pool struct {
	gate  *admission.Gate
	state ModeState
}

// NewController returns a Controller without pools.
func NewController(c Config) *Controller {
	m := &Controller{
		journal: c.Journal, writer: c.Writer, log: c.Log, metrics: c.Metrics,
		wake: make(chan struct{}, 1), recordedCh: make(chan struct{}), inactive: make(map[string]ModeState),
	}
	m.hooks.applied, m.hooks.recorded = c.OnApplied, c.OnRecorded
	if c.OnApplied == nil {
		m.hooks.applied = func(ModeChange) {}
	}
	if c.OnRecorded == nil {
		m.hooks.recorded = func([]ModeChange) {}
	}
	return m
}

// Load reads how pools stood. ActionRequest it once, before Add.
func (c *Controller) Load(ctx context.Context) error {
	standings, err := c.journal.ModeStates(ctx)
	if err != nil {
		return fmt.Errorf("read the modes from the journal: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range standings {
		c.inactive[s.Pool] = s
	}
	return nil
}

// Add puts a pool under control. If it has been here before, its gate is set to
// the mode that it had; if not, the gate's own mode counts and is recorded.
func (c *Controller) Add(now time.Time, name string, gate *admission.Gate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics.addPool(name)
	p := &pool{gate: gate}
	c.pools = append(c.pools, p)
	if s, ok := c.inactive[name]; ok {
		delete(c.inactive, name)
		p.state = s
		gate.SetMode(now, s.Mode)
		return
	}
	mode := gate.Snapshot(now).Mode
	p.state = ModeState{Pool: name, Mode: mode}
	c.changeLocked(now, p, mode, ModeRequest{Action: InitialMode, Actor: "settings", Via: ViaSettings, Reason: "first start"}, 0)
}

// Remove takes a pool out of control. Its record stays, and counts when it comes
// back.
func (c *Controller) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pools = slices.DeleteFunc(c.pools, func(p *pool) bool {
		if p.state.Pool != name {
			return false
		}
		c.inactive[name] = p.state
		return true
	})
}

// ModeState returns how a pool stands, false if there is none of that name.
func (c *Controller) State(name string) (ModeState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		if p.state.Pool == name {
			return p.state, true
		}
	}
	return ModeState{}, false
}

// Recorded says whether a pool's mode stands in the journal: if not, a restart
// would forget it.
func (c *Controller) Recorded(pool string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.pending, func(p ModeChange) bool { return p.Pool == pool })
}

// ModeResult is what became of an order.
type ModeResult struct {
	Changes  []ModeChange // a pool that was in the mode already has From equal to To, and no ID
	Recorded bool         // false: applied, but a restart would forget it
}

// Do carries an order out: on all its pools at once, and only then waits for
// the record, for a bounded time. An error means that nothing was changed.
func (c *Controller) Do(ctx context.Context, now time.Time, o ModeRequest) (ModeResult, error) {
	changes, err := c.apply(now, o, 0)
	if err != nil {
		return ModeResult{}, err
	}
	return ModeResult{Changes: changes, Recorded: c.waitRecorded(ctx, changes)}, nil
}

// apply changes the modes. Nothing is touched unless all pools agree.
func (c *Controller) apply(now time.Time, o ModeRequest, request int64) ([]ModeChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools, err := c.selectPoolsLocked(o)
	if err != nil {
		return nil, err
	}
	changes := make([]ModeChange, 0, len(pools))
	for _, p := range pools {
		to := targetMode(o, p.state)
		if to == p.state.Mode && !o.DropOverdue && request == 0 {
			s := p.gate.Snapshot(now)
			changes = append(changes, ModeChange{
				Pool: p.state.Pool, Action: o.Action, From: to, To: to, At: now.UTC().Truncate(time.Millisecond),
				Running: s.InFlight, Queued: s.Depth, RestoreMode: p.state.RestoreMode,
			})
			continue
		}
		changes = append(changes, c.changeLocked(now, p, to, o, request))
	}
	return changes, nil
}

func (c *Controller) selectPoolsLocked(o ModeRequest) ([]*pool, error) {
	var chosen []*pool
	for _, p := range c.pools {
		if o.Pool != "" && o.Pool != p.state.Pool {
			continue
		}
		if (o.Expected != nil && *o.Expected != p.state.Mode) || (o.Since != nil && !o.Since.Equal(p.state.Since)) {
			return nil, fmt.Errorf("pool %q is in mode %s, since %s by %s: %w", p.state.Pool, p.state.Mode,
				p.state.Since.UTC().Format(time.RFC3339), p.state.Actor, ErrModeMismatch)
		}
		chosen = append(chosen, p)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("pool %q: %w", o.Pool, ErrNoPool)
	}
	return chosen, nil
}

// targetMode returns the mode that an order leads to.
func targetMode(o ModeRequest, s ModeState) admission.Mode {
	switch o.Action {
	case Rollback:
		return admission.PassThrough
	case Restore:
		if s.Mode == admission.PassThrough {
			return s.RestoreMode
		}
		return admission.Enforce
	default:
		return o.Mode
	}
}

// changeLocked applies one change and queues it for the record.
func (c *Controller) changeLocked(now time.Time, p *pool, to admission.Mode, o ModeRequest, request int64) ModeChange {
	before := p.gate.Snapshot(now)
	p.gate.SetMode(now, to)
	change := ModeChange{
		ID: newID(), Writer: c.writer, At: now.UTC().Truncate(time.Millisecond), Pool: p.state.Pool, Action: o.Action,
		From: p.state.Mode, To: to, Actor: o.Actor, Via: o.Via, Reason: o.Reason,
		Running: before.InFlight, Queued: before.Depth, RequestNumber: request,
	}
	if o.DropOverdue {
		change.Dropped = p.gate.DropOverdue(now)
	}
	change.RestoreMode = restoreModeAfter(p.state, to)
	p.state = ModeState{Pool: change.Pool, Mode: to, RestoreMode: change.RestoreMode, Since: change.At, Actor: o.Actor, Reason: o.Reason, Via: o.Via, ChangeID: change.ID}
	c.metrics.countChange(change)
	c.log.Info("mode", "pool", change.Pool, "from", change.From.String(), "to", change.To.String(), "by", change.Actor, "via", change.Via,
		"reason", change.Reason, "running", change.Running, "queued", change.Queued, "dropped", change.Dropped)
	if len(c.pending) < maxPendingChanges {
		c.pending = append(c.pending, change)
	} else {
		c.dropped++
	}
	c.wakeLocked()
	c.hooks.applied(change)
	return change
}

// wakeLocked makes Run look for what is to be recorded.
func (c *Controller) wakeLocked() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// restoreModeAfter returns what a later Restore will return to.
func restoreModeAfter(s ModeState, to admission.Mode) admission.Mode {
	switch {
	case to != admission.PassThrough:
		return admission.Enforce
	case s.Mode == admission.PassThrough:
		return s.RestoreMode
	default:
		return s.Mode
	}
}

func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // crypto/rand never fails on the systems that Go supports
		panic(err)
	}
	return id.String()
}
