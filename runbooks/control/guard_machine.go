package control

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
)

// guards decides about automatic rollback, and does nothing else: the time comes
// from its caller.
type guards struct {
	c     GuardConfig
	pools map[string]*Guard
	dirty map[string]bool // not saved as they are
}

func newGuards(c GuardConfig) *guards {
	return &guards{c: c, pools: make(map[string]*Guard), dirty: make(map[string]bool)}
}

// of returns a pool's guard, a new one if there is none.
func (m *guards) of(now time.Time, pool string) *Guard {
	g, ok := m.pools[pool]
	if !ok {
		g = &Guard{Pool: pool, State: Armed, Since: now}
		m.pools[pool] = g
	}
	return g
}

func (m *guards) enter(g *Guard, now time.Time, to GuardState) {
	g.State, g.Since = to, now
	m.dirty[g.Pool] = true
}

// restored takes over what the record says of a pool, and what it knows of the
// pool's mode: a process that was killed may have been anywhere between the two.
func (m *guards) restored(now time.Time, saved Guard, s Standing) {
	g := saved.settle(now, m.c)
	m.pools[g.Pool] = &g
	ours := s.Mode == admission.PassThrough && s.Via == ViaEngine
	switch {
	case ours && g.State != Flipped:
		// It was done and recorded: that counts, whatever was to be recorded besides.
		at := earlier(s.Since, now)
		if g.State == Flipping {
			at = earlier(at, g.Since)
		}
		m.enter(&g, at, Flipped)
		g.Change = s.Change
		if !slices.ContainsFunc(g.Flips, func(f time.Time) bool { return !f.Before(at) }) {
			g.Flips = append(g.Flips, at)
		}
	case g.State == Flipping:
		// It was to be done, and was not, or a restart has forgotten it.
		m.enter(&g, now, Armed)
		g.Change = ""
	case g.State == Flipped && s.Mode != admission.PassThrough:
		m.cool(&g, now, earlier(s.Since, now))
	}
	if human(s.Via) {
		m.latch(&g, earlier(s.Since, now), s.By, "mode "+s.Mode.String())
	}
}

// human says whether somebody has decided, rather than the program or a file.
func human(v Via) bool { return v != ViaEngine && v != ViaSettings && v != "" }

// changed takes a change of mode into account.
func (m *guards) changed(now time.Time, c Change) {
	g := m.of(now, c.Pool)
	if human(c.Via) {
		m.latch(g, now, c.Actor, string(c.Action)+" to "+c.To.String())
	}
	switch {
	case c.Via == ViaEngine && c.To == admission.PassThrough && g.State == Flipping:
		m.flipped(now, c.Pool, c.ID)
	case c.From == admission.PassThrough && c.To != admission.PassThrough:
		m.cool(g, now, now)
	}
}

// latch lets a decision stand for a while from a time on.
func (m *guards) latch(g *Guard, from time.Time, by, what string) {
	if until := from.Add(m.c.HumanLatch); !until.Before(g.LatchedUntil) && m.c.HumanLatch > 0 {
		g.LatchedUntil, g.LatchedBy, g.Latch = until, by, what
		m.dirty[g.Pool] = true
	}
}

// cool begins the cooldown of a gate that was put back.
func (m *guards) cool(g *Guard, now, from time.Time) {
	m.enter(g, now, Cooldown)
	g.Until = from.Add(m.c.Cooldown)
}

// pass lets time pass.
func (m *guards) pass(now time.Time) {
	for _, g := range m.pools {
		if g.State == Cooldown && !now.Before(g.Until) {
			m.enter(g, now, Armed)
		}
		g.Flips = slices.DeleteFunc(g.Flips, func(at time.Time) bool { return now.Sub(at) >= day })
	}
}

// trouble is an incident whose rule asks for a rollback.
type trouble struct {
	engine.Incident
	value engine.Value
	limit float64 // of a page
	since time.Duration
}

// verdict is what is decided about a trouble.
type verdict struct {
	flip bool
	held string // why not, in a word; empty with flip, and when there is nothing to say
	why  string // the same, for people
}

func held(word, format string, args ...any) verdict {
	return verdict{held: word, why: fmt.Sprintf(format, args...)}
}

// The words for why a rollback was withheld.
const (
	heldOff      = "off"
	heldValue    = "value"
	heldMode     = "mode"
	heldLatch    = "latch"
	heldCooldown = "cooldown"
	heldMaximum  = "maximum"
)

// decide says whether a pool's gate is to be taken out because of a trouble.
func (m *guards) decide(now time.Time, v view, t trouble) verdict {
	g := m.of(now, v.Pool)
	switch {
	case g.State == Flipping, g.State == Flipped && g.Incident == t.ID:
		return verdict{} // it is being done, or was because of this
	case v.gate.Mode == admission.PassThrough:
		return held(heldMode, "the pool is in pass-through already, by %s", v.By)
	case v.gate.Mode == admission.Observe:
		return held(heldMode, "the pool is in observe: nothing is refused there")
	case t.value.Knowing != engine.Known:
		return held(heldValue, "the rule has no fresh value")
	case t.value.V < t.limit:
		return held(heldValue, "the value is below the limit again")
	case !m.c.Auto:
		return held(heldOff, "automatic rollback is switched off (rollback.auto)")
	case now.Before(g.LatchedUntil):
		return held(heldLatch, "%s decided (%s); that stands until %s", g.LatchedBy, g.Latch, stamp(g.LatchedUntil))
	case g.State == Cooldown:
		return held(heldCooldown, "the gate was put back a short while ago; cooldown until %s", stamp(g.Until))
	case g.flips(now) >= m.c.MaxPerDay:
		return held(heldMaximum, "%d of %d automatic rollbacks in 24 hours are used up (rollback.max_per_day)", g.flips(now), m.c.MaxPerDay)
	}
	return verdict{flip: true}
}

// begin notes the intent to flip.
func (m *guards) begin(now time.Time, pool string, t trouble) Guard {
	g := m.of(now, pool)
	m.enter(g, now, Flipping)
	g.Rule, g.Incident, g.Change = t.Key.Rule, t.ID, ""
	return *g
}

// flipped notes that it was done: at once, lest somebody undoes it before.
func (m *guards) flipped(now time.Time, pool, change string) {
	g := m.of(now, pool)
	m.enter(g, now, Flipped)
	g.Change, g.Flips = change, append(g.Flips, now)
}

// abandon notes that it was not.
func (m *guards) abandon(now time.Time, pool string) { m.enter(m.of(now, pool), now, Armed) }

// inputs are what a decision rests on, for the audit.
func (m *guards) inputs(now time.Time, v view, t trouble) map[string]string {
	g := m.of(now, v.Pool)
	in := map[string]string{
		"rule": t.Key.Rule, "threshold": number(t.limit), "unit": t.Unit, "opened": stamp(t.Opened), "breached_for": t.since.Round(time.Millisecond).String(),
		"guard": string(g.State), "flips_today": strconv.Itoa(g.flips(now)), "max_per_day": strconv.Itoa(m.c.MaxPerDay), "mode": v.gate.Mode.String(),
		"permits_free": strconv.Itoa(max(v.gate.Workers-v.gate.InFlight, 0)), "in_flight": strconv.Itoa(v.gate.InFlight),
		"queued": strconv.Itoa(v.gate.Depth), "oldest": v.gate.Oldest.Round(time.Millisecond).String(), "value": "not known",
	}
	if t.value.Knowing == engine.Known {
		in["value"] = number(t.value.V)
	}
	if now.Before(g.LatchedUntil) {
		in["latched_until"], in["latched_by"] = stamp(g.LatchedUntil), g.LatchedBy
	}
	return in
}

func number(v float64) string  { return strconv.FormatFloat(v, 'g', 6, 64) }
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
