package control

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
)

// rollbackMachine decides about automatic rollback, and does nothing else: the time comes
// from its caller.
type rollbackMachine struct {
	c     AutoRollbackSettings
	pools map[string]*RollbackState
	dirty map[string]bool // not saved as they are
}

func newRollbackMachine(c AutoRollbackSettings) *rollbackMachine {
	return &rollbackMachine{c: c, pools: make(map[string]*RollbackState), dirty: make(map[string]bool)}
}

// state returns a pool's guard, a new one if there is none.
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

// reconcile takes over what the record says of a pool, and what it knows of the
// pool's mode: a process that was killed may have been anywhere between the two.
func (m *rollbackMachine) reconcile(now time.Time, saved RollbackState, s ModeState) {
	g := saved.clampToNow(now, m.c)
	m.pools[g.Pool] = &g
	ours := s.Mode == admission.PassThrough && s.Via == ViaEngine
	switch {
	case ours && g.Phase != RolledBack:
		// It was done and recorded: that counts, whatever was to be recorded besides.
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
		// It was to be done, and was not, or a restart has forgotten it.
		m.setPhase(&g, now, Armed)
		g.ChangeID = ""
	case g.Phase == RolledBack && s.Mode != admission.PassThrough:
		m.startCooldown(&g, now, earlier(s.Since, now))
	}
	if isHuman(s.Via) {
		m.setHold(&g, earlier(s.Since, now), s.Actor, "mode "+s.Mode.String())
	}
}

// isHuman says whether somebody has decided, rather than the program or a file.
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

// setHold lets a decision stand for a while from a time on.
func (m *rollbackMachine) setHold(g *RollbackState, from time.Time, by, what string) {
	if until := from.Add(m.c.ManualHold); !until.Before(g.HoldUntil) && m.c.ManualHold > 0 {
		g.HoldUntil, g.HoldActor, g.HoldReason = until, by, what
		m.dirty[g.Pool] = true
	}
}

// startCooldown begins the cooldown of a gate that was put back.
func (m *rollbackMachine) startCooldown(g *RollbackState, now, from time.Time) {
	m.setPhase(g, now, Cooldown)
	g.Until = from.Add(m.c.Cooldown)
}

// expire lets time pass.
func (m *rollbackMachine) expire(now time.Time) {
	for _, g := range m.pools {
		if g.Phase == Cooldown && !now.Before(g.Until) {
			m.setPhase(g, now, Armed)
		}
		g.Rollbacks = slices.DeleteFunc(g.Rollbacks, func(at time.Time) bool { return now.Sub(at) >= day })
	}
}

// rollbackTrigger is an incident whose rule asks for a rollback.
type rollbackTrigger struct {
	engine.Incident
	value       engine.Value
	limit       float64 // of a page
	breachedFor time.Duration
}

// decision is what is decided about a trouble.
type decision struct {
	rollBack bool
	withheld string // why not, in a word; empty with flip, and when there is nothing to say
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

// decide says whether a pool's gate is to be taken out because of a trouble.
func (m *rollbackMachine) decide(now time.Time, v poolView, t rollbackTrigger) decision {
	g := m.state(now, v.Pool)
	switch {
	case g.Phase == RollingBack, g.Phase == RolledBack && g.Incident == t.ID:
		return decision{} // it is being done, or was because of this
	case v.gate.Mode == admission.PassThrough:
		return withhold(withheldMode, "the pool is in pass-through already, by %s", v.Actor)
	case v.gate.Mode == admission.Observe:
		return withhold(withheldMode, "the pool is in observe: nothing is refused there")
	case t.value.Quality != engine.Valid:
		return withhold(withheldValue, "the rule has no fresh value")
	case t.value.V < t.limit:
		return withhold(withheldValue, "the value is below the limit again")
	case !m.c.Auto:
		return withhold(withheldDisabled, "automatic rollback is switched off (rollback.auto)")
	case now.Before(g.HoldUntil):
		return withhold(withheldManualHold, "%s decided (%s); that stands until %s", g.HoldActor, g.HoldReason, formatTime(g.HoldUntil))
	case g.Phase == Cooldown:
		return withhold(withheldCooldown, "the gate was put back a short while ago; cooldown until %s", formatTime(g.Until))
	case g.recentRollbacks(now) >= m.c.MaxPerDay:
		return withhold(withheldDailyLimit, "%d of %d automatic rollbacks in 24 hours are used up (rollback.max_per_day)", g.recentRollbacks(now), m.c.MaxPerDay)
	}
	return decision{rollBack: true}
}

// beginRollback notes the intent to flip.
func (m *rollbackMachine) beginRollback(now time.Time, pool string, t rollbackTrigger) RollbackState {
	g := m.state(now, pool)
	m.setPhase(g, now, RollingBack)
	g.Rule, g.Incident, g.ChangeID = t.Key.Rule, t.ID, ""
	return *g
}

// completeRollback notes that it was done: at once, lest somebody undoes it before.
func (m *rollbackMachine) completeRollback(now time.Time, pool, change string) {
	g := m.state(now, pool)
	m.setPhase(g, now, RolledBack)
	g.ChangeID, g.Rollbacks = change, append(g.Rollbacks, now)
}

// abandonRollback notes that it was not.
func (m *rollbackMachine) abandonRollback(now time.Time, pool string) {
	m.setPhase(m.state(now, pool), now, Armed)
}

// decisionInputs are what a decision rests on, for the audit.
func (m *rollbackMachine) decisionInputs(now time.Time, v poolView, t rollbackTrigger) map[string]string {
	g := m.state(now, v.Pool)
	in := map[string]string{
		"rule": t.Key.Rule, "threshold": formatNumber(t.limit), "unit": t.Unit, "opened": formatTime(t.Opened), "breached_for": t.breachedFor.Round(time.Millisecond).String(),
		"auto_rollback": string(g.Phase), "auto_rollbacks_today": strconv.Itoa(g.recentRollbacks(now)), "max_per_day": strconv.Itoa(m.c.MaxPerDay), "mode": v.gate.Mode.String(),
		"permits_free": strconv.Itoa(max(v.gate.Workers-v.gate.InFlight, 0)), "in_flight": strconv.Itoa(v.gate.InFlight),
		"queued": strconv.Itoa(v.gate.Depth), "oldest": v.gate.OldestAge.Round(time.Millisecond).String(), "value": "not known",
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
