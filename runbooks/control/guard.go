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
	guardTick    = time.Second
	intentTime   = 500 * time.Millisecond // for the intent to be recorded; a full disk must not stop a rollback
	tellTime     = 2 * time.Second        // for one telling
	saveEvery    = 5 * time.Second        // between attempts to save while they fail
	unrecorded   = 10 * time.Second       // for which a rollback may be not recorded before people hear of that
	maxUnsaid    = 100                    // remarks that wait to be told
	maxUntold    = 1000                   // changes that wait to be told
	maxHeld      = 10_000                 // decisions remembered as noted
	engineActor  = "engine"
	unknownActor = "unknown"
)

// Watch is what a Keeper needs of the engine. *engine.Engine has it.
type Watch interface {
	Incidents() []engine.Incident
	States() []engine.RuleStatus
	Remark(context.Context, engine.Remark) ([]engine.Incident, error)
}

// KeeperConfig is what a Keeper is made of. All of it must be there, but for
// Remind, Unrecorded and Clock.
type KeeperConfig struct {
	Rules   GuardConfig
	Modes   *Controller
	Journal GuardJournal
	Audit   interface{ Note(Entry) } // an *Auditor
	Log     *slog.Logger
	Metrics *Metrics
	// Remind brings a reminder to people; one that was brought already must be left
	// alone. Nil: nobody is reminded.
	Remind func(context.Context, Reminder) error
	// Unrecorded tells people of a rollback that was made and cannot be recorded, by a
	// way that needs no disk. It is called once for each, and does not block. Nil:
	// nobody is told before it is recorded.
	Unrecorded func(Change)
	// Clock is the wall clock of a start plus monotonic time. Nil: that, from now on.
	Clock func() time.Time
}

// Keeper runs the automatic rollback of all pools, tells on-call of changes of
// mode, and reminds people of pass-through. Applied, Recorded, Kick and Guard may
// be called from any goroutine; none of them waits.
type Keeper struct {
	c     KeeperConfig
	wake  chan struct{} // holds one
	watch Watch         // of Run
	// unsaid are remarks about withheld rollbacks that are on their way. Only Run uses it.
	unsaid []engine.Remark

	mu       sync.Mutex
	m        *guards
	untold   []untold
	noted    map[string]bool      // decisions that are in the audit
	flips    map[string]*flip     // that are not recorded yet, by change
	since    map[string]time.Time // of pass-through, by the Keeper's clock
	reminded map[string]int       // hours of pass-through told of, by change
	retryAt  time.Time            // of saving
}

// untold is a recorded change that the incidents' followers do not know of.
type untold struct {
	Change
	asked bool // whether they know is to be looked up first: it is of another process
	guard Guard
}

// flip is a rollback of ours that is not recorded yet.
type flip struct {
	Change
	entry Entry     // for when it is
	at    time.Time // by the Keeper's clock
	said  bool      // people know that it is not
}

// NewKeeper returns a Keeper that does nothing yet. Its Applied and Recorded are
// for the Controller's config.
func NewKeeper(c KeeperConfig) (*Keeper, error) {
	if err := c.Rules.Validate(); err != nil {
		return nil, fmt.Errorf("automatic rollback: %w", err)
	}
	if c.Journal == nil || c.Audit == nil || c.Log == nil || c.Metrics == nil {
		return nil, errors.New("automatic rollback needs a journal, an audit, a log and metrics")
	}
	if c.Clock == nil {
		start := time.Now()
		c.Clock = func() time.Time { return start.Round(0).Add(time.Since(start)) }
	}
	return &Keeper{
		c: c, wake: make(chan struct{}, 1), m: newGuards(c.Rules), noted: make(map[string]bool),
		flips: make(map[string]*flip), since: make(map[string]time.Time), reminded: make(map[string]int),
	}, nil
}

// Load reads how the guards stood, and what became of a rollback that another
// process was about to make. Call it once, after the Controller has its pools.
func (k *Keeper) Load(ctx context.Context, modes *Controller) error {
	saved, err := k.c.Journal.Guards(ctx)
	if err != nil {
		return fmt.Errorf("read the guards from the journal: %w", err)
	}
	views, now := modes.views(time.Now()), k.c.Clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.c.Modes = modes
	byPool := make(map[string]Guard)
	for _, g := range saved {
		byPool[g.Pool] = g
		k.m.restored(now, g, Standing{Pool: g.Pool}) // it may come with a reload
	}
	for _, v := range views {
		g, ok := byPool[v.Pool]
		if !ok {
			g = Guard{Pool: v.Pool, State: Armed, Since: now}
		}
		k.m.restored(now, g, v.Standing)
		if g := k.m.of(now, v.Pool); g.State == Flipped {
			k.untold = append(k.untold, untold{Change: changeOf(v.Standing), asked: true, guard: *g})
		}
	}
	return nil
}

// changeOf is what a standing says of the change that led to it.
func changeOf(s Standing) Change {
	return Change{ID: s.Change, At: s.Since, Pool: s.Pool, Action: Rollback, From: s.Before, To: s.Mode, Actor: s.By, Via: s.Via, Reason: s.Reason}
}

// Configure replaces what automatic rollback may do, from now on.
func (k *Keeper) Configure(c GuardConfig) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m.c = c
}

// Applied takes a change into account: it is the Controller's.
func (k *Keeper) Applied(c Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m.changed(k.c.Clock(), c)
	if c.To != c.From {
		k.since[c.Pool] = k.c.Clock()
	}
	k.Kick()
}

// Recorded has changes told: only what a restart will not forget is.
func (k *Keeper) Recorded(changes []Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range changes {
		if c.Action != First && c.From != c.To && len(k.untold) < maxUntold {
			k.untold = append(k.untold, untold{Change: c, guard: *k.m.of(k.c.Clock(), c.Pool)})
		}
	}
	k.Kick()
}

// Kick has the Keeper look at once.
func (k *Keeper) Kick() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Guard returns how the automatic rollback of a pool stands.
func (k *Keeper) Guard(pool string) (g Guard, flips int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.c.Clock()
	g = *k.m.of(now, pool)
	return g, g.flips(now)
}

// Why says in a few words what made a pool's guard roll back, or what keeps it from
// that; empty: nothing.
func (k *Keeper) Why(pool string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.c.Clock()
	g := k.m.of(now, pool)
	switch {
	case g.State == Flipped || g.State == Flipping:
		return "rule " + g.Rule
	case !k.m.c.Auto:
		return "switched off"
	case now.Before(g.LatchedUntil):
		return g.LatchedBy + " decided: " + g.Latch
	case g.State == Cooldown:
		return "put back a short while ago; cooldown until " + stamp(g.Until)
	case g.flips(now) >= k.m.c.MaxPerDay:
		return "the rollbacks of 24 hours are used up"
	}
	return ""
}

// Run decides, tells and reminds until ctx ends.
func (k *Keeper) Run(ctx context.Context, w Watch) {
	k.watch = w
	tick := time.NewTicker(guardTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.wake:
		}
		k.step(ctx)
	}
}

// step is one look at everything.
func (k *Keeper) step(ctx context.Context) {
	now, views := k.c.Clock(), k.c.Modes.views(time.Now())
	k.mu.Lock()
	k.m.pass(now)
	k.mu.Unlock()
	k.guard(ctx, views)
	k.tell(ctx)
	k.sayUnrecorded(now, views)
	k.remind(ctx, views)
	k.save(ctx)
}
