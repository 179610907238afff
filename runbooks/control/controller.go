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
	ErrNoPool     = errors.New("no such pool")
	ErrUnexpected = errors.New("the pool is in another mode than expected")
)

// recordWait is how long the giver of an order waits for the record.
const recordWait = 2 * time.Second

// maxPending bounds the changes that wait for the journal.
const maxPending = 10_000

// Config is what a Controller is made of.
type Config struct {
	Journal Journal
	Writer  string // names this process in the record
	Log     *slog.Logger
	Metrics *Metrics

	// Applied hears of every change at once, recorded or not, and Recorded of those
	// that have been recorded. Both may be nil and must not block; Applied must not
	// call the Controller.
	Applied  func(Change)
	Recorded func([]Change)
}

// Controller owns the modes of all pools: nobody else changes them. Its methods
// may be called from any goroutine.
type Controller struct {
	journal Journal
	writer  string
	log     *slog.Logger
	metrics *Metrics
	wake    chan struct{} // holds one: there is something to record
	told    struct {
		applied  func(Change)
		recorded func([]Change)
	}

	mu       sync.Mutex
	pools    []*pool
	known    map[string]Standing // recorded ones of pools that are not here
	pending  []Change            // applied, not recorded yet, in order
	dropped  int                 // that did not fit into pending
	recorded chan struct{}       // closed when something was recorded, then made anew
	seen     int64               // highest request dealt with
	noted    int64               // highest one recorded as dealt with
}

type pool struct {
	gate     *admission.Gate
	standing Standing
}

// New returns a Controller without pools.
func New(c Config) *Controller {
	m := &Controller{
		journal: c.Journal, writer: c.Writer, log: c.Log, metrics: c.Metrics,
		wake: make(chan struct{}, 1), recorded: make(chan struct{}), known: make(map[string]Standing),
	}
	m.told.applied, m.told.recorded = c.Applied, c.Recorded
	if c.Applied == nil {
		m.told.applied = func(Change) {}
	}
	if c.Recorded == nil {
		m.told.recorded = func([]Change) {}
	}
	return m
}

// Load reads how pools stood. Call it once, before Add.
func (c *Controller) Load(ctx context.Context) error {
	standings, err := c.journal.Standings(ctx)
	if err != nil {
		return fmt.Errorf("read the modes from the journal: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range standings {
		c.known[s.Pool] = s
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
	if s, ok := c.known[name]; ok {
		delete(c.known, name)
		p.standing = s
		gate.SetMode(now, s.Mode)
		return
	}
	mode := gate.Snapshot(now).Mode
	p.standing = Standing{Pool: name, Mode: mode}
	c.changeLocked(now, p, mode, Order{Action: First, Actor: "settings", Via: ViaSettings, Reason: "first start"}, 0)
}

// Remove takes a pool out of control. Its record stays, and counts when it comes
// back.
func (c *Controller) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pools = slices.DeleteFunc(c.pools, func(p *pool) bool {
		if p.standing.Pool != name {
			return false
		}
		c.known[name] = p.standing
		return true
	})
}

// Standing returns how a pool stands, false if there is none of that name.
func (c *Controller) Standing(name string) (Standing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		if p.standing.Pool == name {
			return p.standing, true
		}
	}
	return Standing{}, false
}

// Recorded says whether a pool's mode stands in the journal: if not, a restart
// would forget it.
func (c *Controller) Recorded(pool string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.pending, func(p Change) bool { return p.Pool == pool })
}

// Result is what became of an order.
type Result struct {
	Changes  []Change // a pool that was in the mode already has From equal to To, and no ID
	Recorded bool     // false: applied, but a restart would forget it
}

// Do carries an order out: on all its pools at once, and only then waits for
// the record, for a bounded time. An error means that nothing was changed.
func (c *Controller) Do(ctx context.Context, now time.Time, o Order) (Result, error) {
	changes, err := c.apply(now, o, 0)
	if err != nil {
		return Result{}, err
	}
	return Result{Changes: changes, Recorded: c.waitRecorded(ctx, changes)}, nil
}

// apply changes the modes. Nothing is touched unless all pools agree.
func (c *Controller) apply(now time.Time, o Order, request int64) ([]Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools, err := c.chosenLocked(o)
	if err != nil {
		return nil, err
	}
	changes := make([]Change, 0, len(pools))
	for _, p := range pools {
		to := target(o, p.standing)
		if to == p.standing.Mode && !o.DropOverdue && request == 0 {
			s := p.gate.Snapshot(now)
			changes = append(changes, Change{
				Pool: p.standing.Pool, Action: o.Action, From: to, To: to, At: now.UTC().Truncate(time.Millisecond),
				Running: s.InFlight, Queued: s.Depth, Before: p.standing.Before,
			})
			continue
		}
		changes = append(changes, c.changeLocked(now, p, to, o, request))
	}
	return changes, nil
}

func (c *Controller) chosenLocked(o Order) ([]*pool, error) {
	var chosen []*pool
	for _, p := range c.pools {
		if o.Pool != "" && o.Pool != p.standing.Pool {
			continue
		}
		if (o.Expected != nil && *o.Expected != p.standing.Mode) || (o.Since != nil && !o.Since.Equal(p.standing.Since)) {
			return nil, fmt.Errorf("pool %q is in mode %s, since %s by %s: %w", p.standing.Pool, p.standing.Mode,
				p.standing.Since.UTC().Format(time.RFC3339), p.standing.By, ErrUnexpected)
		}
		chosen = append(chosen, p)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("pool %q: %w", o.Pool, ErrNoPool)
	}
	return chosen, nil
}

// target returns the mode that an order leads to.
func target(o Order, s Standing) admission.Mode {
	switch o.Action {
	case Rollback:
		return admission.PassThrough
	case Restore:
		if s.Mode == admission.PassThrough {
			return s.Before
		}
		return admission.Enforce
	default:
		return o.Mode
	}
}

// changeLocked applies one change and queues it for the record.
func (c *Controller) changeLocked(now time.Time, p *pool, to admission.Mode, o Order, request int64) Change {
	before := p.gate.Snapshot(now)
	p.gate.SetMode(now, to)
	change := Change{
		ID: newID(), Writer: c.writer, At: now.UTC().Truncate(time.Millisecond), Pool: p.standing.Pool, Action: o.Action,
		From: p.standing.Mode, To: to, Actor: o.Actor, Via: o.Via, Reason: o.Reason,
		Running: before.InFlight, Queued: before.Depth, Request: request,
	}
	if o.DropOverdue {
		change.Dropped = p.gate.DropOverdue(now)
	}
	change.Before = beforeOf(p.standing, to)
	p.standing = Standing{Pool: change.Pool, Mode: to, Before: change.Before, Since: change.At, By: o.Actor, Reason: o.Reason, Via: o.Via, Change: change.ID}
	c.metrics.changed(change)
	c.log.Info("mode", "pool", change.Pool, "from", change.From.String(), "to", change.To.String(), "by", change.Actor, "via", change.Via,
		"reason", change.Reason, "running", change.Running, "queued", change.Queued, "dropped", change.Dropped)
	if len(c.pending) < maxPending {
		c.pending = append(c.pending, change)
	} else {
		c.dropped++
	}
	c.wakeLocked()
	c.told.applied(change)
	return change
}

// wakeLocked makes Run look for what is to be recorded.
func (c *Controller) wakeLocked() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// beforeOf returns what a later Restore will return to.
func beforeOf(s Standing, to admission.Mode) admission.Mode {
	switch {
	case to != admission.PassThrough:
		return admission.Enforce
	case s.Mode == admission.PassThrough:
		return s.Before
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
