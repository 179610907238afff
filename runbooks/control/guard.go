package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"headgate/engine"
)

const (
	evaluateInterval      = time.Second
	intentTimeout         = 500 * time.Millisecond // for the intent to be recorded; a full disk must not stop a rollback
	notifyTimeout         = 2 * time.Second        // for one telling
	saveRetryInterval     = 5 * time.Second        // between attempts to save while they fail
	unrecordedGrace       = 10 * time.Second       // for which a rollback may be not recorded before people hear of that
	maxPendingAnnotations = 100                    // remarks that wait to be told
	maxUnannounced        = 1000                   // changes that wait to be told
	maxAudited            = 10_000                 // decisions remembered as noted
	engineActor           = "engine"
	unknownActor          = "unknown"
)

// RuleEngine is what a AutoRollback needs of the engine. *engine.Engine has it.
type RuleEngine interface {
	Incidents() []engine.Incident
	States() []engine.RuleStatus
	Annotate(context.Context, engine.Annotation) ([]engine.Incident, error)
}

// AutoRollbackConfig is what a AutoRollback is made of. All of it must be there, but for
// Remind, Unrecorded and Clock.
type AutoRollbackConfig struct {
	Settings   AutoRollbackSettings
	Controller *Controller
	Journal    RollbackStore
	Audit      interface{ Append(AuditEntry) } // an *AuditLog
	Log        *slog.Logger
	Metrics    *Metrics
	// Remind brings a reminder to people; one that was brought already must be left
	// alone. Nil: nobody is reminded.
	Remind func(context.Context, Reminder) error
	// Unrecorded tells people of a rollback that was made and cannot be recorded, by a
	// way that needs no disk. It is called once for each, and does not block. Nil:
	// nobody is told before it is recorded.
	OnUnrecorded func(ModeChange)
	// Clock is the wall clock of a start plus monotonic time. Nil: that, from now on.
	Clock func() time.Time
}

// AutoRollback runs the automatic rollback of all pools, tells on-call of changes of
// mode, and reminds people of pass-through. Applied, Recorded, Kick and RollbackState may
// be called from any goroutine; none of them waits.
type AutoRollback struct {
	c     AutoRollbackConfig
	wake  chan struct{} // holds one
	rules RuleEngine    // of Run
	// unsaid are remarks about withheld rollbacks that are on their way. Only Run uses it.
	pendingAnnotations []engine.Annotation

	mu          sync.Mutex
	machine     *rollbackMachine
	unannounced []unannouncedChange
	audited     map[string]bool                // decisions that are in the audit
	unrecorded  map[string]*unrecordedRollback // that are not recorded yet, by change
	modeSince   map[string]time.Time           // of pass-through, by the AutoRollback's clock
	reminded    map[string]int                 // hours of pass-through told of, by change
	saveRetryAt time.Time                      // of saving
}

// unannouncedChange is a recorded change that the incidents' followers do not know of.
type unannouncedChange struct {
	ModeChange
	checkFirst bool // whether they know is to be looked up first: it is of another process
	state      RollbackState
}

// unrecordedRollback is a rollback of ours that is not recorded yet.
type unrecordedRollback struct {
	ModeChange
	entry  AuditEntry // for when it is
	at     time.Time  // by the AutoRollback's clock
	warned bool       // people know that it is not
}

// NewAutoRollback returns a AutoRollback that does nothing yet. Its Applied and Recorded are
// for the Controller's config.
func NewAutoRollback(c AutoRollbackConfig) (*AutoRollback, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("automatic rollback: %w", err)
	}
	if c.Journal == nil || c.Audit == nil || c.Log == nil || c.Metrics == nil {
		return nil, errors.New("automatic rollback needs a journal, an audit, a log and metrics")
	}
	if c.Clock == nil {
		start := time.Now()
		c.Clock = func() time.Time { return start.Round(0).Add(time.Since(start)) }
	}
	return &AutoRollback{
		c: c, wake: make(chan struct{}, 1), machine: newRollbackMachine(c.Settings), audited: make(map[string]bool),
		unrecorded: make(map[string]*unrecordedRollback), modeSince: make(map[string]time.Time), reminded: make(map[string]int),
	}, nil
}

// Load reads how the guards stood, and what became of a rollback that another
// process was about to make. ActionRequest it once, after the Controller has its pools.
func (k *AutoRollback) Load(ctx context.Context, modes *Controller) error {
	saved, err := k.c.Journal.RollbackStates(ctx)
	if err != nil {
		return fmt.Errorf("read the guards from the journal: %w", err)
	}
	views, now := modes.poolViews(time.Now()), k.c.Clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.c.Controller = modes
	byPool := make(map[string]RollbackState)
	for _, g := range saved {
		byPool[g.Pool] = g
		k.machine.reconcile(now, g, ModeState{Pool: g.Pool}) // it may come with a reload
	}
	for _, v := range views {
		g, ok := byPool[v.Pool]
		if !ok {
			g = RollbackState{Pool: v.Pool, Phase: Armed, Since: now}
		}
		k.machine.reconcile(now, g, v.ModeState)
		if g := k.machine.state(now, v.Pool); g.Phase == RolledBack {
			k.unannounced = append(k.unannounced, unannouncedChange{ModeChange: changeFromState(v.ModeState), checkFirst: true, state: *g})
		}
	}
	return nil
}

// changeFromState is what a standing says of the change that led to it.
func changeFromState(s ModeState) ModeChange {
	return ModeChange{ID: s.ChangeID, At: s.Since, Pool: s.Pool, Action: Rollback, From: s.RestoreMode, To: s.Mode, Actor: s.Actor, Via: s.Via, Reason: s.Reason}
}

// Configure replaces what automatic rollback may do, from now on.
func (k *AutoRollback) Configure(c AutoRollbackSettings) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.machine.c = c
}

// OnApplied takes a change into account: it is the Controller's.
func (k *AutoRollback) OnApplied(c ModeChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.machine.modeChanged(k.c.Clock(), c)
	if c.To != c.From {
		k.modeSince[c.Pool] = k.c.Clock()
	}
	k.Wake()
}

// OnRecorded has changes told: only what a restart will not forget is.
func (k *AutoRollback) OnRecorded(changes []ModeChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range changes {
		if c.Action != InitialMode && c.From != c.To && len(k.unannounced) < maxUnannounced {
			k.unannounced = append(k.unannounced, unannouncedChange{ModeChange: c, state: *k.machine.state(k.c.Clock(), c.Pool)})
		}
	}
	k.Wake()
}

// Wake has the AutoRollback look at once.
func (k *AutoRollback) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// RollbackState returns how the automatic rollback of a pool stands.
func (k *AutoRollback) Status(pool string) (g RollbackState, flips int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.c.Clock()
	g = *k.machine.state(now, pool)
	return g, g.recentRollbacks(now)
}

// StatusReason says in a few words what made a pool's guard roll back, or what keeps it from
// that; empty: nothing.
func (k *AutoRollback) StatusReason(pool string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.c.Clock()
	g := k.machine.state(now, pool)
	switch {
	case g.Phase == RolledBack || g.Phase == RollingBack:
		return "rule " + g.Rule
	case !k.machine.c.Auto:
		return "switched off"
	case now.Before(g.HoldUntil):
		return g.HoldActor + " decided: " + g.HoldReason
	case g.Phase == Cooldown:
		return "put back a short while ago; cooldown until " + formatTime(g.Until)
	case g.recentRollbacks(now) >= k.machine.c.MaxPerDay:
		return "the rollbacks of 24 hours are used up"
	}
	return ""
}

// Run decides, tells and reminds until ctx ends.
func (k *AutoRollback) Run(ctx context.Context, w RuleEngine) {
	k.rules = w
	tick := time.NewTicker(evaluateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.wake:
		}
		k.tick(ctx)
	}
}

// tick is one look at everything.
func (k *AutoRollback) tick(ctx context.Context) {
	now, views := k.c.Clock(), k.c.Controller.poolViews(time.Now())
	k.mu.Lock()
	k.machine.expire(now)
	k.mu.Unlock()
	k.evaluate(ctx, views)
	k.announce(ctx)
	k.warnUnrecorded(now, views)
	k.sendReminders(ctx, views)
	k.save(ctx)
}
