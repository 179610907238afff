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

	"headgate/internal/writebehind"
	"headgate/proxy/admission"
)

// Errors that orders are refused with.
var (
	ErrNoPool       = errors.New("no such pool")
	ErrModeMismatch = errors.New("the pool is in another mode than expected")
)

const (
	recordWaitTimeout = 2 * time.Second        // for which a caller waits until a change is recorded
	maxPendingChanges = 10_000                 // changes that wait for the journal
	maxRecordBatch    = 100                    // changes recorded in one attempt
	pollInterval      = 500 * time.Millisecond // of the journal, for queued requests
	readTimeout       = 5 * time.Second        // for one read of queued requests
)

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
	applied func(ModeChange)
	queue   *writebehind.Queue[[]journalItem]

	mu          sync.Mutex
	pools       []*pool
	inactive    map[string]ModeState // recorded ones of pools that are not here
	lastRequest int64                // highest queued request that was processed
}

// journalItem is a change to record, or without one the number of a processed request. The number follows the changes
// of its request: after a crash in between, the request is carried out again rather than lost.
type journalItem struct {
	change  ModeChange
	request int64
}

type pool struct {
	gate  *admission.Gate
	state ModeState
}

// NewController returns a Controller without pools.
func NewController(c Config) *Controller {
	m := &Controller{journal: c.Journal, writer: c.Writer, log: c.Log, metrics: c.Metrics, applied: c.OnApplied, inactive: make(map[string]ModeState)}
	if m.applied == nil {
		m.applied = func(ModeChange) {}
	}
	m.queue = writebehind.New(writebehind.Config[[]journalItem]{
		Batch: writebehind.List[journalItem](maxPendingChanges, maxRecordBatch),
		Write: func(ctx context.Context, b []journalItem) error {
			changes, seen := splitItems(b)
			return c.Journal.RecordChanges(ctx, changes, seen)
		},
		OnWritten: func(b []journalItem) {
			if changes, _ := splitItems(b); c.OnRecorded != nil {
				c.OnRecorded(changes)
			}
		},
		OnError: func(err error, pending int) {
			c.Metrics.countError("record_mode")
			c.Log.Error("mode change applied but not recorded, retrying", "pending", pending, "error", err)
		},
		OnDropped: func(n int) { c.Log.Error("mode change backlog full, changes not recorded", "count", n) },
	})
	return m
}

func splitItems(b []journalItem) (changes []ModeChange, seen int64) {
	for _, i := range b {
		if i.request > 0 {
			seen = max(seen, i.request)
			continue
		}
		changes = append(changes, i.change)
	}
	return changes, seen
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
	return !c.queue.Pending(changesMatch(func(c ModeChange) bool { return c.Pool == pool }))
}

func changesMatch(match func(ModeChange) bool) func([]journalItem) bool {
	return func(b []journalItem) bool {
		return slices.ContainsFunc(b, func(i journalItem) bool { return i.request == 0 && match(i.change) })
	}
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
	ctx, cancel := context.WithTimeout(ctx, recordWaitTimeout)
	defer cancel()
	recorded := c.queue.Wait(ctx, changesMatch(func(p ModeChange) bool {
		return slices.ContainsFunc(changes, func(q ModeChange) bool { return p.ID == q.ID })
	}))
	return ModeResult{Changes: changes, Recorded: recorded}, nil
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
	c.log.Info("pool mode changed", "pool", change.Pool, "from", change.From.String(), "to", change.To.String(), "by", change.Actor, "via", change.Via,
		"reason", change.Reason, "running", change.Running, "queued", change.Queued, "dropped", change.Dropped)
	c.queue.Add([]journalItem{{change: change}})
	c.applied(change)
	return change
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

// Run records changes in the background and carries out the requests that commands left in the journal. It returns
// when ctx has ended, after a last attempt to record.
func (c *Controller) Run(ctx context.Context) {
	var recording sync.WaitGroup
	recording.Go(func() { c.queue.Run(ctx) })
	defer recording.Wait()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			if err := c.ProcessRequests(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("queued requests not read", "error", err)
			}
		}
	}
}

// ProcessRequests looks for requests in the journal and carries out those that are
// new. Run calls it by itself; call it once before tasks arrive, so that what
// was asked for while nothing ran counts from the first task on.
func (c *Controller) ProcessRequests(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	requests, err := c.journal.QueuedRequests(attempt, c.lastRequestNumber())
	if err != nil {
		c.metrics.countError("read_requests")
		return fmt.Errorf("read requests from the journal: %w", err)
	}
	for _, r := range requests {
		if err := c.processRequest(r); err != nil {
			c.log.Warn("queued request not carried out", "number", r.Number, "error", err)
		}
	}
	return nil
}

func (c *Controller) processRequest(r QueuedRequest) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lastRequest = max(c.lastRequest, r.Number)
		c.queue.Add([]journalItem{{request: r.Number}})
	}()
	if r.Mode.Action == "" {
		return errors.New("invalid request")
	}
	r.Mode.Via = ViaRequest
	_, err := c.apply(time.Now(), r.Mode, r.Number)
	return err
}

func (c *Controller) lastRequestNumber() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastRequest
}

// poolView is how a pool stands, and its gate with it.
type poolView struct {
	ModeState
	gate     admission.Snapshot
	recorded bool // the standing is
}

// poolViews returns all pools, in the order in which they were added.
func (c *Controller) poolViews(now time.Time) []poolView {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]poolView, 0, len(c.pools))
	for _, p := range c.pools {
		all = append(all, poolView{ModeState: p.state, gate: p.gate.Snapshot(now), recorded: c.Recorded(p.state.Pool)})
	}
	return all
}

// gate returns a pool's gate, nil if there is no such pool.
func (c *Controller) gate(pool string) *admission.Gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		if p.state.Pool == pool {
			return p.gate
		}
	}
	return nil
}

// mode returns the mode that a pool's gate is in, Enforce if there is no such pool.
// All that was applied until then Applied has heard of.
func (c *Controller) mode(pool string) admission.Mode {
	if gate := c.gate(pool); gate != nil {
		return gate.Snapshot(time.Now()).Mode
	}
	return admission.Enforce
}

// dryRun says what an order would do, and does nothing.
func (c *Controller) dryRun(now time.Time, o ModeRequest) ([]ModeChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools, err := c.selectPoolsLocked(o)
	if err != nil {
		return nil, err
	}
	changes := make([]ModeChange, 0, len(pools))
	for _, p := range pools {
		s, to := p.gate.Snapshot(now), targetMode(o, p.state)
		change := ModeChange{
			Pool: p.state.Pool, Action: o.Action, From: p.state.Mode, To: to, At: now.UTC().Truncate(time.Millisecond),
			Running: s.InFlight, Queued: s.Depth, RestoreMode: restoreModeAfter(p.state, to), Actor: o.Actor, Via: o.Via, Reason: o.Reason,
		}
		if o.DropOverdue {
			change.Dropped, _ = p.gate.Overdue(now)
		}
		changes = append(changes, change)
	}
	return changes, nil
}
