package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
)

// RollbackPhase is the phase of the automatic rollback of a pool.
type RollbackPhase string

// The phases.
const (
	Armed       RollbackPhase = "armed"    // it may roll back
	RollingBack RollbackPhase = "flipping" // it is about to, or is not known to have done it
	RolledBack  RollbackPhase = "flipped"  // it has, and the mode was not restored since
	Cooldown    RollbackPhase = "cooldown" // the mode was restored recently
)

// RollbackPhases returns every phase, in a fixed order.
func RollbackPhases() []RollbackPhase {
	return []RollbackPhase{Armed, RollingBack, RolledBack, Cooldown}
}

const (
	day          = 24 * time.Hour // in which rollbacks are counted
	maxRollbacks = 100            // of a pool that are remembered
)

// RollbackState is the state of the automatic rollback of one pool. Times are in UTC.
type RollbackState struct {
	Pool      string
	Phase     RollbackPhase
	Since     time.Time
	Until     time.Time // of the cooldown
	Rule      string    // that caused the latest rollback
	Incident  string    // of that rule
	ChangeID  string    // of the rollback; empty while it is not known to be applied
	Rollbacks []time.Time

	HoldUntil  time.Time // until then a manual decision counts
	HoldActor  string
	HoldReason string // what was decided
}

// recentRollbacks returns how many rollbacks count for the daily limit.
func (g RollbackState) recentRollbacks(now time.Time) int {
	n := 0
	for _, at := range g.Rollbacks {
		if now.Sub(at) < day {
			n++
		}
	}
	return n
}

// RollbackStore records the states. Its methods may be called from any goroutine and obey their context.
type RollbackStore interface {
	SaveRollbackState(context.Context, RollbackState) error
	// RollbackStates returns the state of every pool that has had one.
	RollbackStates(context.Context) ([]RollbackState, error)
	// HasAnnotation says whether an incident has an annotation of that kind by that actor, not older than since.
	HasAnnotation(ctx context.Context, incident, kind, actor string, since time.Time) (bool, error)
}

// AutoRollbackSettings says what the automatic rollback may do.
type AutoRollbackSettings struct {
	Auto       bool          // false: every rollback is withheld
	MaxPerDay  int           // rollbacks of a pool in 24 hours
	Cooldown   time.Duration // after the mode was restored
	ManualHold time.Duration // after a manual change of mode, in either direction
}

// Validate names every invalid field.
func (c AutoRollbackSettings) Validate() error {
	var errs []error
	if c.MaxPerDay < 0 || c.MaxPerDay > maxRollbacks {
		errs = append(errs, fmt.Errorf("the daily maximum is %d: it must be 0 to %d", c.MaxPerDay, maxRollbacks))
	}
	if c.Cooldown < 0 {
		errs = append(errs, fmt.Errorf("the cooldown is %s: it must not be negative", c.Cooldown))
	}
	if c.ManualHold < 0 {
		errs = append(errs, fmt.Errorf("the manual hold is %s: it must not be negative", c.ManualHold))
	}
	return errors.Join(errs...)
}

// clampToNow corrects recorded times that a clock which was set back has put into the future: they count from now on,
// and no longer than the settings say.
func (g RollbackState) clampToNow(now time.Time, c AutoRollbackSettings) RollbackState {
	g.Until = earlier(g.Until, now.Add(c.Cooldown))
	g.HoldUntil = earlier(g.HoldUntil, now.Add(c.ManualHold))
	g.Rollbacks = slices.Clone(g.Rollbacks[max(0, len(g.Rollbacks)-maxRollbacks):])
	for n, at := range g.Rollbacks {
		g.Rollbacks[n] = earlier(at, now)
	}
	return g
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// rollbackMachine decides about automatic rollback, and does nothing else: the time comes from its caller.
type rollbackMachine struct {
	c     AutoRollbackSettings
	pools map[string]*RollbackState
	dirty map[string]bool // not recorded as they are
}

func newRollbackMachine(c AutoRollbackSettings) *rollbackMachine {
	return &rollbackMachine{c: c, pools: make(map[string]*RollbackState), dirty: make(map[string]bool)}
}

// state returns a pool's state, a new one if there is none.
func (m *rollbackMachine) state(now time.Time, pool string) *RollbackState {
	g, ok := m.pools[pool]
	if !ok {
		g = &RollbackState{Pool: pool, Phase: Armed, Since: now}
		m.pools[pool] = g
	}
	return g
}

func (m *rollbackMachine) setPhase(g *RollbackState, now time.Time, to RollbackPhase) {
	g.Phase, g.Since = to, now
	m.dirty[g.Pool] = true
}

// reconcile combines the recorded state of a pool with its recorded mode: a process may have been killed anywhere
// between the two.
func (m *rollbackMachine) reconcile(now time.Time, saved RollbackState, s ModeState) {
	g := saved.clampToNow(now, m.c)
	m.pools[g.Pool] = &g
	ours := s.Mode == admission.PassThrough && s.Via == ViaEngine
	switch {
	case ours && g.Phase != RolledBack:
		// The change is recorded: the pool was rolled back, whatever else is missing.
		at := earlier(s.Since, now)
		if g.Phase == RollingBack {
			at = earlier(at, g.Since)
		}
		m.setPhase(&g, at, RolledBack)
		g.ChangeID = s.ChangeID
		if !slices.ContainsFunc(g.Rollbacks, func(f time.Time) bool { return !f.Before(at) }) {
			g.Rollbacks = append(g.Rollbacks, at)
		}
	case g.Phase == RollingBack:
		// It was intended and not done, or not recorded.
		m.setPhase(&g, now, Armed)
		g.ChangeID = ""
	case g.Phase == RolledBack && s.Mode != admission.PassThrough:
		m.startCooldown(&g, now, earlier(s.Since, now))
	}
	if isHuman(s.Via) {
		m.setHold(&g, earlier(s.Since, now), s.Actor, "mode "+s.Mode.String())
	}
}

// isHuman says whether a person has decided, rather than the program or a file.
func isHuman(v Via) bool { return v != ViaEngine && v != ViaSettings && v != "" }

// modeChanged takes a change of mode into account.
func (m *rollbackMachine) modeChanged(now time.Time, c ModeChange) {
	g := m.state(now, c.Pool)
	if isHuman(c.Via) {
		m.setHold(g, now, c.Actor, string(c.Action)+" to "+c.To.String())
	}
	switch {
	case c.Via == ViaEngine && c.To == admission.PassThrough && g.Phase == RollingBack:
		m.completeRollback(now, c.Pool, c.ID)
	case c.From == admission.PassThrough && c.To != admission.PassThrough:
		m.startCooldown(g, now, now)
	}
}

// setHold makes a manual decision count for a while.
func (m *rollbackMachine) setHold(g *RollbackState, from time.Time, by, what string) {
	if until := from.Add(m.c.ManualHold); !until.Before(g.HoldUntil) && m.c.ManualHold > 0 {
		g.HoldUntil, g.HoldActor, g.HoldReason = until, by, what
		m.dirty[g.Pool] = true
	}
}

// startCooldown begins the cooldown after a restore.
func (m *rollbackMachine) startCooldown(g *RollbackState, now, from time.Time) {
	m.setPhase(g, now, Cooldown)
	g.Until = from.Add(m.c.Cooldown)
}

// expire ends cooldowns, and forgets rollbacks that no longer count.
func (m *rollbackMachine) expire(now time.Time) {
	for _, g := range m.pools {
		if g.Phase == Cooldown && !now.Before(g.Until) {
			m.setPhase(g, now, Armed)
		}
		g.Rollbacks = slices.DeleteFunc(g.Rollbacks, func(at time.Time) bool { return now.Sub(at) >= day })
	}
}

// rollbackTrigger is an incident whose rule has the action rollback.
type rollbackTrigger struct {
	engine.Incident
	value       engine.Value
	limit       float64 // of a page
	breachedFor time.Duration
}

// decision is what is decided about a trigger.
type decision struct {
	rollBack bool
	withheld string // why not, in a word; empty with rollBack, and if there is nothing to decide
	why      string // the same, for people
}

func withhold(word, format string, args ...any) decision {
	return decision{withheld: word, why: fmt.Sprintf(format, args...)}
}

// The words for why a rollback was withheld.
const (
	withheldDisabled   = "off"
	withheldValue      = "value"
	withheldMode       = "mode"
	withheldManualHold = "latch"
	withheldCooldown   = "cooldown"
	withheldDailyLimit = "maximum"
)

// decide says whether a pool is to be rolled back because of a trigger.
func (m *rollbackMachine) decide(now time.Time, v poolView, t rollbackTrigger) decision {
	g := m.state(now, v.Pool)
	switch {
	case g.Phase == RollingBack, g.Phase == RolledBack && g.Incident == t.ID:
		return decision{} // it is in progress, or was done because of this
	case v.gate.Mode == admission.PassThrough:
		return withhold(withheldMode, "the pool is already in passthrough, by %s", v.Actor)
	case v.gate.Mode == admission.Observe:
		return withhold(withheldMode, "the pool is in observe: nothing is refused there")
	case t.value.Quality != engine.Valid:
		return withhold(withheldValue, "the rule has no fresh value")
	case t.value.V < t.limit:
		return withhold(withheldValue, "the value is below the limit again")
	}
	d := m.prevented(now, g)
	d.rollBack = d.withheld == ""
	return d
}

// prevented says why no rollback of a pool is possible now, whatever triggers one; the zero decision: it is possible.
func (m *rollbackMachine) prevented(now time.Time, g *RollbackState) decision {
	switch {
	case !m.c.Auto:
		return withhold(withheldDisabled, "automatic rollback is disabled (rollback.auto)")
	case now.Before(g.HoldUntil):
		return withhold(withheldManualHold, "%s decided (%s); that holds until %s", g.HoldActor, g.HoldReason, formatTime(g.HoldUntil))
	case g.Phase == Cooldown:
		return withhold(withheldCooldown, "the mode was restored recently; cooldown until %s", formatTime(g.Until))
	case g.recentRollbacks(now) >= m.c.MaxPerDay:
		return withhold(withheldDailyLimit, "%d of %d automatic rollbacks in 24 hours are used up (rollback.max_per_day)", g.recentRollbacks(now), m.c.MaxPerDay)
	}
	return decision{}
}

// beginRollback records the intent.
func (m *rollbackMachine) beginRollback(now time.Time, pool string, t rollbackTrigger) RollbackState {
	g := m.state(now, pool)
	m.setPhase(g, now, RollingBack)
	g.Rule, g.Incident, g.ChangeID = t.Key.Rule, t.ID, ""
	return *g
}

// completeRollback is called as soon as the change is applied, before it can be undone.
func (m *rollbackMachine) completeRollback(now time.Time, pool, change string) {
	g := m.state(now, pool)
	m.setPhase(g, now, RolledBack)
	g.ChangeID, g.Rollbacks = change, append(g.Rollbacks, now)
}

// abandonRollback is called when the change was not applied.
func (m *rollbackMachine) abandonRollback(now time.Time, pool string) {
	m.setPhase(m.state(now, pool), now, Armed)
}

// decisionInputs returns what a decision rests on, for the audit.
func (m *rollbackMachine) decisionInputs(now time.Time, v poolView, t rollbackTrigger) map[string]string {
	g := m.state(now, v.Pool)
	in := map[string]string{
		"rule": t.Key.Rule, "threshold": formatNumber(t.limit), "unit": t.Unit, "opened": formatTime(t.Opened), "breached_for": t.breachedFor.Round(time.Millisecond).String(),
		"auto_rollback": string(g.Phase), "auto_rollbacks_today": strconv.Itoa(g.recentRollbacks(now)), "max_per_day": strconv.Itoa(m.c.MaxPerDay), "mode": v.gate.Mode.String(),
		"permits_free": strconv.Itoa(max(v.gate.Workers-v.gate.InFlight, 0)), "in_flight": strconv.Itoa(v.gate.InFlight),
		"queued": strconv.Itoa(v.gate.Depth), "oldest": v.gate.OldestAge.Round(time.Millisecond).String(), "value": "unknown",
	}
	if t.value.Quality == engine.Valid {
		in["value"] = formatNumber(t.value.V)
	}
	if now.Before(g.HoldUntil) {
		in["hold_until"], in["hold_by"] = formatTime(g.HoldUntil), g.HoldActor
	}
	return in
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
