package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"headgate/internal/writebehind"
	"headgate/proxy/admission"
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

	// OnApplied is called with every change at once, OnRecorded with those that have been recorded. Both may be nil
	// and must not block; OnApplied must not call the Controller.
	OnApplied  func(ModeChange)
	OnRecorded func([]ModeChange)
}

// Controller owns the modes of all pools: nothing else changes them. A change is applied to the gate at once and
// recorded after. Its methods may be called from any goroutine.
type Controller struct {
	config Config
	queue  *writebehind.Queue[[]journalItem]

	lastRequest atomic.Int64 // highest queued request that was processed

	mu       sync.Mutex
	pools    []*pool
	inactive map[string]ModeState // recorded ones of pools that are not here
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
	m := &Controller{config: c, inactive: make(map[string]ModeState)}
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

// Load reads the recorded modes. Call it once, before Add.
func (c *Controller) Load(ctx context.Context) error {
	states, err := c.config.Journal.ModeStates(ctx)
	if err != nil {
		return fmt.Errorf("read the modes from the journal: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range states {
		c.inactive[s.Pool] = s
	}
	return nil
}

// Add puts a pool under control. A recorded pool gets the mode that it had; otherwise the gate's own mode counts and
// is recorded.
func (c *Controller) Add(now time.Time, name string, gate *admission.Gate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Metrics.addPool(name)
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
	c.changeLocked(now, p, ModeRequest{
		Action: InitialMode, Mode: mode, Actor: "settings", Via: ViaSettings, Reason: "first start",
	}, 0)
}

// Remove takes a pool out of control. Its mode is kept for when it is added again.
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

// State returns a pool's mode, false if there is no pool of that name.
func (c *Controller) State(name string) (ModeState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.poolLocked(name); p != nil {
		return p.state, true
	}
	return ModeState{}, false
}

// poolLocked returns a pool, nil if there is none of that name.
func (c *Controller) poolLocked(name string) *pool {
	if n := slices.IndexFunc(c.pools, func(p *pool) bool { return p.state.Pool == name }); n >= 0 {
		return c.pools[n]
	}
	return nil
}

// Recorded says whether a pool's mode is in the journal: if not, a restart would forget it.
func (c *Controller) Recorded(pool string) bool {
	return !c.queue.Pending(changesMatch(func(c ModeChange) bool { return c.Pool == pool }))
}

func changesMatch(match func(ModeChange) bool) func([]journalItem) bool {
	return func(b []journalItem) bool {
		return slices.ContainsFunc(b, func(i journalItem) bool { return i.request == 0 && match(i.change) })
	}
}

// ModeResult is the result of a ModeRequest.
type ModeResult struct {
	Changes  []ModeChange // for a pool that was in the mode already From equals To, and there is no ID
	Recorded bool         // false: applied, but a restart would forget it
}

// Do changes the modes of all pools of a request at once, and only then waits for the record, for a bounded time. An
// error means that nothing was changed.
func (c *Controller) Do(ctx context.Context, now time.Time, req ModeRequest) (ModeResult, error) {
	changes, err := c.apply(now, req, 0)
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

// apply changes the modes of all pools of a request, or of none.
func (c *Controller) apply(now time.Time, req ModeRequest, request int64) ([]ModeChange, error) {
	return c.forPools(req, func(p *pool) ModeChange {
		change := p.plan(now, req)
		if change.From != change.To || req.DropOverdue || request > 0 {
			change = c.changeLocked(now, p, req, request)
		}
		return change
	})
}

// dryRun returns the changes that a request would make.
func (c *Controller) dryRun(now time.Time, req ModeRequest) ([]ModeChange, error) {
	return c.forPools(req, func(p *pool) ModeChange { return p.plan(now, req) })
}

// forPools calls do for all pools of a request, or for none.
func (c *Controller) forPools(req ModeRequest, do func(*pool) ModeChange) ([]ModeChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools, err := c.selectPoolsLocked(req)
	if err != nil {
		return nil, err
	}
	changes := make([]ModeChange, 0, len(pools))
	for _, p := range pools {
		changes = append(changes, do(p))
	}
	return changes, nil
}

// selectPoolsLocked returns the pools that a request is about, if all of them are as it expects.
func (c *Controller) selectPoolsLocked(req ModeRequest) ([]*pool, error) {
	var chosen []*pool
	var names []string
	var mismatched []ModeState
	for _, p := range c.pools {
		names = append(names, p.state.Pool)
		if req.Pool != "" && req.Pool != p.state.Pool {
			continue
		}
		if (req.Expected != nil && *req.Expected != p.state.Mode) || (req.Since != nil && !req.Since.Equal(p.state.Since)) {
			mismatched = append(mismatched, p.state)
		}
		chosen = append(chosen, p)
	}
	switch {
	case len(chosen) == 0:
		return nil, &NoPoolError{Pool: req.Pool, Pools: names}
	case len(mismatched) > 0:
		return nil, &ModeMismatchError{Expected: req.Expected, Current: mismatched}
	}
	return chosen, nil
}

// targetMode returns the mode that a request leads to.
func targetMode(req ModeRequest, s ModeState) admission.Mode {
	switch req.Action {
	case Rollback:
		return admission.PassThrough
	case Restore:
		if s.Mode == admission.PassThrough {
			return s.RestoreMode
		}
		return admission.Enforce
	default:
		return req.Mode
	}
}

// plan returns the change that a request leads to, without an ID. It names no actor if nothing would change.
func (p *pool) plan(now time.Time, req ModeRequest) ModeChange {
	s, to := p.gate.Snapshot(now), targetMode(req, p.state)
	change := ModeChange{
		At: now.UTC().Truncate(time.Millisecond), Pool: p.state.Pool, Action: req.Action, From: p.state.Mode, To: to,
		RestoreMode: restoreModeAfter(p.state, to), Running: s.InFlight, Queued: s.Depth,
	}
	if req.DropOverdue {
		change.Dropped, _ = p.gate.Overdue(now)
	}
	if to != p.state.Mode || req.DropOverdue {
		change.Actor, change.Via, change.Reason = req.Actor, req.Via, req.Reason
	}
	return change
}

// changeLocked applies one change and queues it for the record.
func (c *Controller) changeLocked(now time.Time, p *pool, req ModeRequest, request int64) ModeChange {
	change, to := p.plan(now, req), targetMode(req, p.state)
	change.ID, change.Writer, change.RequestNumber = newID(), c.config.Writer, request
	change.Actor, change.Via, change.Reason = req.Actor, req.Via, req.Reason
	p.gate.SetMode(now, to)
	if req.DropOverdue {
		change.Dropped = p.gate.DropOverdue(now)
	}
	p.state = ModeState{
		Pool: change.Pool, Mode: to, RestoreMode: change.RestoreMode, Since: change.At, Actor: req.Actor, Reason: req.Reason,
		Via: req.Via, ChangeID: change.ID,
	}
	c.config.Metrics.countChange(change)
	c.config.Log.Info("pool mode changed", "pool", change.Pool, "from", change.From.String(), "to", change.To.String(),
		"by", change.Actor, "via", change.Via, "reason", change.Reason,
		"running", change.Running, "queued", change.Queued, "dropped", change.Dropped)
	c.queue.Add([]journalItem{{change: change}})
	if c.config.OnApplied != nil {
		c.config.OnApplied(change)
	}
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
	recordCtx, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends after the last request was processed
	recording.Go(func() { c.queue.Run(recordCtx) })
	defer recording.Wait()
	defer stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			if err := c.ProcessRequests(ctx); err != nil && ctx.Err() == nil {
				c.config.Log.Warn("queued requests not read", "error", err)
			}
		}
	}
}

// ProcessRequests carries out the requests in the journal that are new. Run calls it; call it once before Run and
// before tasks arrive, so that what was requested while nothing ran counts from the first task on.
func (c *Controller) ProcessRequests(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	requests, err := c.config.Journal.QueuedRequests(attempt, c.lastRequest.Load())
	if err != nil {
		c.config.Metrics.countError("read_requests")
		return fmt.Errorf("read requests from the journal: %w", err)
	}
	for _, r := range requests {
		if err := c.processRequest(r); err != nil {
			c.config.Log.Warn("queued request not carried out", "number", r.Number, "error", err)
		}
	}
	return nil
}

func (c *Controller) processRequest(r QueuedRequest) error {
	defer func() {
		c.lastRequest.Store(max(c.lastRequest.Load(), r.Number))
		c.queue.Add([]journalItem{{request: r.Number}})
	}()
	if r.Mode.Action == "" {
		return errors.New("invalid request")
	}
	r.Mode.Via = ViaRequest
	_, err := c.apply(time.Now(), r.Mode, r.Number)
	return err
}

// poolView is the state of a pool and of its gate.
type poolView struct {
	ModeState
	gate     admission.Snapshot
	recorded bool // the ModeState is
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
	if p := c.poolLocked(pool); p != nil {
		return p.gate
	}
	return nil
}

// mode returns the mode that a pool's gate is in, false if there is no such pool.
func (c *Controller) mode(pool string) (admission.Mode, bool) {
	gate := c.gate(pool)
	if gate == nil {
		return 0, false
	}
	return gate.Snapshot(time.Now()).Mode, true
}

// Metrics counts changes of mode and failures to record them.
type Metrics struct {
	changes *prometheus.CounterVec
	errors  *prometheus.CounterVec
}

// NewMetrics registers the counters.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_mode_changes_total", Help: "Mode changes by new mode and requesting interface.",
		}, []string{"pool", "mode", "actor"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_journal_errors_total", Help: "Failed reads and writes of the record by operation.",
		}, []string{"op"}),
	}
	for _, op := range []string{"record_mode", "read_requests", "record_entry", "record_guard", "record_pause"} {
		m.errors.WithLabelValues(op)
	}
	for _, c := range []prometheus.Collector{m.changes, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// addPool creates a pool's counters at zero.
func (m *Metrics) addPool(name string) {
	for _, mode := range admission.Modes() {
		for _, via := range Vias() {
			m.changes.WithLabelValues(name, mode.String(), string(via))
		}
	}
}

func (m *Metrics) countChange(c ModeChange) {
	m.changes.WithLabelValues(c.Pool, c.To.String(), string(c.Via)).Inc()
}

func (m *Metrics) countError(op string) { m.errors.WithLabelValues(op).Inc() }
