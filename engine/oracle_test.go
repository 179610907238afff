package engine

import (
	"fmt"
	"slices"
	"time"
)

// oracle says what should happen, from the words of the specification. Unlike the
// machine it has no clocks and no phases: it keeps every evaluation, and works
// out from them at each step what has been so for how long.
type oracle struct {
	c        Config
	keys     map[Key]*keyHistory
	silences []Silence
	now      time.Time
}

// observation is one evaluation of a key.
type observation struct {
	elapsed time.Duration
	band    string // missing, idle, clear, hold, warn or page
}

type keyHistory struct {
	key          Key
	observations []observation // since the last reset
	incidents    []modelIncident
	flips        []time.Time
	emitted      []string // in this step
	opened       bool     // in this step
}

// modelIncident is an incident as the oracle sees it.
type modelIncident struct {
	level, peak             Level
	open                    bool
	ended                   time.Time
	expired                 bool // too old to come back
	recovering              bool
	flapping                bool
	digest, reminded        time.Time
	acked                   bool
	ackUntil                time.Time
	notified, pendingUnmute bool
}

func newOracle(c Config) *oracle { return &oracle{c: c, keys: make(map[Key]*keyHistory)} }

func (o *oracle) history(key Key) *keyHistory {
	if o.keys[key] == nil {
		o.keys[key] = &keyHistory{key: key}
	}
	return o.keys[key]
}

func (p *keyHistory) latest() *modelIncident {
	if len(p.incidents) == 0 {
		return nil
	}
	return &p.incidents[len(p.incidents)-1]
}

func (p *keyHistory) open() *modelIncident {
	if t := p.latest(); t != nil && t.open {
		return t
	}
	return nil
}

func bandName(r Rule, v Value) string {
	first := r.Warn
	if !first.Set {
		first = r.Page
	}
	switch {
	case v.Quality == Missing:
		return "missing"
	case v.Quality == Idle:
		return "idle"
	case r.Page.Set && v.V >= r.Page.At:
		return "page"
	case v.V >= first.At:
		return "warn"
	case v.V < r.Clear.Below:
		return "clear"
	}
	return "hold"
}

func breaches(p string) bool { return p == "warn" || p == "page" }

// heldFor adds up the time between two evaluations in a row that are both so, back
// to the last one that ends it.
func (p *keyHistory) heldFor(so, ends func(string) bool) time.Duration {
	var sum time.Duration
	for n := len(p.observations) - 1; n >= 0 && !ends(p.observations[n].band); n-- {
		if n > 0 && so(p.observations[n].band) && so(p.observations[n-1].band) {
			sum += p.observations[n].elapsed
		}
	}
	return sum
}

func anyOf(places ...string) func(string) bool {
	return func(p string) bool { return slices.Contains(places, p) }
}

// dueLevel returns the level whose threshold has been breached for long enough.
func (p *keyHistory) dueLevel(r Rule) Level {
	at := p.observations[len(p.observations)-1].band
	endsPage := anyOf("clear", "hold", "warn")
	if !r.Warn.Set {
		endsPage = anyOf("clear")
	}
	if r.Page.Set && at == "page" && p.heldFor(anyOf("page"), endsPage) >= r.Page.For {
		return LevelPage
	}
	if r.Warn.Set && breaches(at) && p.heldFor(breaches, anyOf("clear")) >= r.Warn.For {
		return LevelWarn
	}
	return LevelNone
}

// pending says whether a breach has begun that has neither counted nor ended.
func (p *keyHistory) pending() bool {
	for n := len(p.observations) - 1; n >= 0 && p.observations[n].band != "clear"; n-- {
		if breaches(p.observations[n].band) {
			return true
		}
	}
	return false
}

func (o *oracle) muted(key Key) bool {
	for _, s := range o.silences {
		if s.Rule == key.Rule && (s.Pool == "" || s.Pool == key.Pool) && !o.now.Before(s.From) && o.now.Before(s.Until) {
			return true
		}
	}
	return false
}

func (o *oracle) emit(p *keyHistory, t *modelIncident, kind EventKind, digested bool) {
	line := fmt.Sprintf("%s %s", kind, t.level)
	if digested {
		line += " digested"
	}
	if o.muted(p.key) {
		line += " muted"
		t.pendingUnmute = true
	} else {
		t.notified = true
	}
	p.emitted = append(p.emitted, line)
}

// step returns what should be said of each key.
func (o *oracle) step(now time.Time, elapsed time.Duration, rules []Rule, values map[Key]Value) map[Key][]string {
	o.now = now
	elapsed = min(max(elapsed, 0), 2*o.c.Interval)
	for _, p := range o.keys {
		p.emitted, p.opened = nil, false
	}
	there := map[Key]bool{}
	lost := map[string]int{}
	var pools []string
	for _, r := range rules {
		there[r.Key()] = true
		p := o.history(r.Key())
		o.observe(p, r, values[r.Key()], elapsed)
		if !slices.Contains(pools, r.Pool) {
			pools = append(pools, r.Pool)
		}
		if p.observations[len(p.observations)-1].band == "missing" && p.heldFor(anyOf("missing"), anyOf("clear", "hold", "warn", "page", "idle")) >= o.c.MissingGrace {
			lost[r.Pool]++
		}
	}
	for _, pool := range pools {
		r := MissingRule(pool)
		there[r.Key()] = true
		o.observe(o.history(r.Key()), r, Value{V: float64(lost[pool])}, elapsed)
	}
	for key, p := range o.keys {
		if !there[key] {
			if t := p.open(); t != nil {
				o.resolve(p, t)
			}
			p.observations = nil
		}
	}
	o.endSilences()
	said := map[Key][]string{}
	for key, p := range o.keys {
		o.maintain(p)
		if len(p.emitted) > 0 {
			said[key] = p.emitted
		}
	}
	return said
}

// expireReopenWindow lets the latest trouble become too old to come back.
func (o *oracle) expireReopenWindow(p *keyHistory) {
	if t := p.latest(); t != nil && !t.open && !p.pending() && !t.flapping && o.now.Sub(t.ended) > o.c.ReopenWindow {
		t.expired = true
	}
}

func (o *oracle) observe(p *keyHistory, r Rule, v Value, elapsed time.Duration) {
	o.expireReopenWindow(p)
	at := bandName(r, v)
	p.observations = append(p.observations, observation{elapsed, at})
	t := p.open()
	switch {
	case at == "missing":
	case at == "idle":
		if (t != nil || p.pending()) && p.heldFor(anyOf("idle"), anyOf("clear", "hold", "warn", "page")) >= o.c.IdleClose {
			if t != nil {
				o.resolve(p, t)
			}
			p.observations = []observation{{0, "idle"}}
		}
	case t == nil:
		if level := p.dueLevel(r); level != LevelNone {
			o.fire(p, level)
		}
	default:
		o.updateOpen(p, r, t, at)
	}
}

func (o *oracle) fire(p *keyHistory, level Level) {
	t := p.latest()
	if t == nil || t.expired {
		for n := range p.incidents {
			if old := &p.incidents[n]; !old.notified {
				old.pendingUnmute = false
			}
		}
		p.incidents = append(p.incidents, modelIncident{level: level, peak: level, open: true, reminded: o.now})
		t = p.latest()
		p.opened = true
		begins := o.countFlap(p, t)
		o.emit(p, t, EventOpened, false)
		o.announce(p, t, begins)
		return
	}
	higher := level > t.peak
	t.open, t.recovering, t.level, t.peak = true, false, level, max(t.peak, level)
	begins := o.countFlap(p, t)
	o.notify(p, t, EventReopened, t.flapping && !higher)
	o.announce(p, t, begins)
}

// notify says something that people hear, unless it is part of a digest.
func (o *oracle) notify(p *keyHistory, t *modelIncident, kind EventKind, digested bool) {
	o.emit(p, t, kind, digested)
	if !digested {
		t.reminded = o.now
	}
}

// countFlap notes a turn for the worse and says whether a flapping begins with it.
func (o *oracle) countFlap(p *keyHistory, t *modelIncident) bool {
	p.flips = append(p.flips, o.now)
	if t.flapping || o.recentFlaps(p) < o.c.Flap.Count {
		return false
	}
	t.flapping = true
	return true
}

func (o *oracle) recentFlaps(p *keyHistory) int {
	n := 0
	for _, at := range p.flips {
		if o.now.Sub(at) <= o.c.Flap.Window {
			n++
		}
	}
	return n
}

func (o *oracle) announce(p *keyHistory, t *modelIncident, begins bool) {
	if begins {
		o.emit(p, t, EventFlapping, false)
		t.digest = o.now
	}
}

func (o *oracle) updateOpen(p *keyHistory, r Rule, t *modelIncident, at string) {
	if at == "clear" && p.heldFor(anyOf("clear"), breaches) >= r.Clear.For {
		o.resolve(p, t)
		p.observations = []observation{{0, "clear"}}
		return
	}
	if at == "clear" && !t.recovering {
		t.recovering = true
		if !t.flapping {
			o.emit(p, t, EventRecovering, false)
		}
	}
	if breaches(at) && t.recovering {
		t.recovering = false
		begins := o.countFlap(p, t)
		if !t.flapping {
			o.emit(p, t, EventRefired, false)
		}
		o.announce(p, t, begins)
	}
	switch {
	case t.level == LevelWarn && p.dueLevel(r) == LevelPage:
		higher := t.peak < LevelPage
		t.level, t.peak, t.acked = LevelPage, LevelPage, false
		begins := o.countFlap(p, t)
		o.notify(p, t, EventEscalated, t.flapping && !higher)
		o.announce(p, t, begins)
	case t.level == LevelPage && at == "warn" && p.heldFor(anyOf("warn"), anyOf("page")) >= r.Clear.For:
		t.level = LevelWarn
		o.emit(p, t, EventDeescalated, t.flapping)
	}
}

func (o *oracle) resolve(p *keyHistory, t *modelIncident) {
	t.open, t.recovering, t.acked, t.ended = false, false, false, o.now
	o.emit(p, t, EventResolved, t.flapping)
}

func (o *oracle) endSilences() {
	var ended, left []Silence
	for _, s := range o.silences {
		if o.now.Before(s.Until) {
			left = append(left, s)
		} else {
			ended = append(ended, s)
		}
	}
	o.silences = left
	o.unmute(ended)
}

// unmute emits the events of keys whose silence has ended.
func (o *oracle) unmute(ended []Silence) {
	for key, p := range o.keys {
		covers := func(s Silence) bool { return s.Rule == key.Rule && (s.Pool == "" || s.Pool == key.Pool) }
		if !slices.ContainsFunc(ended, covers) || o.muted(key) {
			continue
		}
		for n := range p.incidents {
			t := &p.incidents[n]
			if !t.pendingUnmute && (!t.open || p.opened) {
				continue
			}
			t.pendingUnmute, t.reminded = false, o.now
			o.emit(p, t, EventUnmuted, false)
		}
	}
}

// maintain does what time alone brings about.
func (o *oracle) maintain(p *keyHistory) {
	t := p.latest()
	if t == nil {
		return
	}
	o.flapOn(p, t)
	if !t.open {
		return
	}
	if t.acked && !o.now.Before(t.ackUntil) {
		t.acked = false
		o.notify(p, t, EventAckExpired, false)
	}
	every := o.c.Remind.Warn
	if t.level == LevelPage {
		every = o.c.Remind.Page
	}
	if every > 0 && !t.acked && !o.muted(p.key) && o.now.Sub(t.reminded) >= every {
		o.notify(p, t, EventReminder, false)
	}
}

func (o *oracle) flapOn(p *keyHistory, t *modelIncident) {
	switch {
	case !t.flapping || t.expired:
	case o.recentFlaps(p) < o.c.Flap.Count:
		t.flapping = false
		o.emit(p, t, EventSteady, false)
	case o.now.Sub(t.digest) >= o.c.Flap.Digest && p.flips[len(p.flips)-1].After(t.digest):
		o.emit(p, t, EventFlapping, false)
		t.digest = o.now
	}
	o.expireReopenWindow(p)
}
