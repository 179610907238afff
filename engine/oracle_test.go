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
	keys     map[Key]*past
	silences []Silence
	now      time.Time
}

// look is one evaluation of a key.
type look struct {
	elapsed time.Duration
	place   string // missing, idle, clear, hold, warn or page
}

type past struct {
	key    Key
	looks  []look // since the last reset
	told   []trouble
	flips  []time.Time
	said   []string // in this step
	opened bool     // in this step
}

// trouble is an incident as the oracle sees it.
type trouble struct {
	level, peak      Level
	open             bool
	ended            time.Time
	gone             bool // too old to come back
	recovering       bool
	flapping         bool
	digest, reminded time.Time
	acked            bool
	ackUntil         time.Time
	heard, due       bool
}

func newOracle(c Config) *oracle { return &oracle{c: c, keys: make(map[Key]*past)} }

func (o *oracle) past(key Key) *past {
	if o.keys[key] == nil {
		o.keys[key] = &past{key: key}
	}
	return o.keys[key]
}

func (p *past) latest() *trouble {
	if len(p.told) == 0 {
		return nil
	}
	return &p.told[len(p.told)-1]
}

func (p *past) open() *trouble {
	if t := p.latest(); t != nil && t.open {
		return t
	}
	return nil
}

func place(r Rule, v Value) string {
	first := r.Warn
	if !first.Set {
		first = r.Page
	}
	switch {
	case v.Knowing == Missing:
		return "missing"
	case v.Knowing == Idle:
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

// lasted adds up the time between two evaluations in a row that are both so, back
// to the last one that ends it.
func (p *past) lasted(so, ends func(string) bool) time.Duration {
	var sum time.Duration
	for n := len(p.looks) - 1; n >= 0 && !ends(p.looks[n].place); n-- {
		if n > 0 && so(p.looks[n].place) && so(p.looks[n-1].place) {
			sum += p.looks[n].elapsed
		}
	}
	return sum
}

func is(places ...string) func(string) bool {
	return func(p string) bool { return slices.Contains(places, p) }
}

// due returns the level whose threshold has been breached for long enough.
func (p *past) due(r Rule) Level {
	at := p.looks[len(p.looks)-1].place
	endsPage := is("clear", "hold", "warn")
	if !r.Warn.Set {
		endsPage = is("clear")
	}
	if r.Page.Set && at == "page" && p.lasted(is("page"), endsPage) >= r.Page.For {
		return LevelPage
	}
	if r.Warn.Set && breaches(at) && p.lasted(breaches, is("clear")) >= r.Warn.For {
		return LevelWarn
	}
	return LevelNone
}

// pending says whether a breach has begun that has neither counted nor ended.
func (p *past) pending() bool {
	for n := len(p.looks) - 1; n >= 0 && p.looks[n].place != "clear"; n-- {
		if breaches(p.looks[n].place) {
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

func (o *oracle) say(p *past, t *trouble, kind EventKind, digested bool) {
	line := fmt.Sprintf("%s %s", kind, t.level)
	if digested {
		line += " digested"
	}
	if o.muted(p.key) {
		line += " muted"
		t.due = true
	} else {
		t.heard = true
	}
	p.said = append(p.said, line)
}

// step returns what should be said of each key.
func (o *oracle) step(now time.Time, elapsed time.Duration, rules []Rule, values map[Key]Value) map[Key][]string {
	o.now = now
	elapsed = min(max(elapsed, 0), 2*o.c.Interval)
	for _, p := range o.keys {
		p.said, p.opened = nil, false
	}
	there := map[Key]bool{}
	lost := map[string]int{}
	var pools []string
	for _, r := range rules {
		there[r.Key()] = true
		p := o.past(r.Key())
		o.look(p, r, values[r.Key()], elapsed)
		if !slices.Contains(pools, r.Pool) {
			pools = append(pools, r.Pool)
		}
		if p.looks[len(p.looks)-1].place == "missing" && p.lasted(is("missing"), is("clear", "hold", "warn", "page", "idle")) >= o.c.MissingGrace {
			lost[r.Pool]++
		}
	}
	for _, pool := range pools {
		r := MissingRule(pool)
		there[r.Key()] = true
		o.look(o.past(r.Key()), r, Value{V: float64(lost[pool])}, elapsed)
	}
	for key, p := range o.keys {
		if !there[key] {
			if t := p.open(); t != nil {
				o.resolve(p, t)
			}
			p.looks = nil
		}
	}
	o.endSilences()
	said := map[Key][]string{}
	for key, p := range o.keys {
		o.pass(p)
		if len(p.said) > 0 {
			said[key] = p.said
		}
	}
	return said
}

// age lets the latest trouble become too old to come back.
func (o *oracle) age(p *past) {
	if t := p.latest(); t != nil && !t.open && !p.pending() && !t.flapping && o.now.Sub(t.ended) > o.c.ReopenWindow {
		t.gone = true
	}
}

func (o *oracle) look(p *past, r Rule, v Value, elapsed time.Duration) {
	o.age(p)
	at := place(r, v)
	p.looks = append(p.looks, look{elapsed, at})
	t := p.open()
	switch {
	case at == "missing":
	case at == "idle":
		if (t != nil || p.pending()) && p.lasted(is("idle"), is("clear", "hold", "warn", "page")) >= o.c.IdleClose {
			if t != nil {
				o.resolve(p, t)
			}
			p.looks = []look{{0, "idle"}}
		}
	case t == nil:
		if level := p.due(r); level != LevelNone {
			o.fire(p, level)
		}
	default:
		o.goOn(p, r, t, at)
	}
}

func (o *oracle) fire(p *past, level Level) {
	t := p.latest()
	if t == nil || t.gone {
		for n := range p.told {
			if old := &p.told[n]; !old.heard {
				old.due = false
			}
		}
		p.told = append(p.told, trouble{level: level, peak: level, open: true, reminded: o.now})
		t = p.latest()
		p.opened = true
		begins := o.flip(p, t)
		o.say(p, t, EventOpened, false)
		o.announce(p, t, begins)
		return
	}
	higher := level > t.peak
	t.open, t.recovering, t.level, t.peak = true, false, level, max(t.peak, level)
	begins := o.flip(p, t)
	o.loud(p, t, EventReopened, t.flapping && !higher)
	o.announce(p, t, begins)
}

// loud says something that people hear, unless it is part of a digest.
func (o *oracle) loud(p *past, t *trouble, kind EventKind, digested bool) {
	o.say(p, t, kind, digested)
	if !digested {
		t.reminded = o.now
	}
}

// flip notes a turn for the worse and says whether a flapping begins with it.
func (o *oracle) flip(p *past, t *trouble) bool {
	p.flips = append(p.flips, o.now)
	if t.flapping || o.recent(p) < o.c.Flap.Count {
		return false
	}
	t.flapping = true
	return true
}

func (o *oracle) recent(p *past) int {
	n := 0
	for _, at := range p.flips {
		if o.now.Sub(at) <= o.c.Flap.Window {
			n++
		}
	}
	return n
}

func (o *oracle) announce(p *past, t *trouble, begins bool) {
	if begins {
		o.say(p, t, EventFlapping, false)
		t.digest = o.now
	}
}

func (o *oracle) goOn(p *past, r Rule, t *trouble, at string) {
	if at == "clear" && p.lasted(is("clear"), breaches) >= r.Clear.For {
		o.resolve(p, t)
		p.looks = []look{{0, "clear"}}
		return
	}
	if at == "clear" && !t.recovering {
		t.recovering = true
		if !t.flapping {
			o.say(p, t, EventRecovering, false)
		}
	}
	if breaches(at) && t.recovering {
		t.recovering = false
		begins := o.flip(p, t)
		if !t.flapping {
			o.say(p, t, EventRefired, false)
		}
		o.announce(p, t, begins)
	}
	switch {
	case t.level == LevelWarn && p.due(r) == LevelPage:
		higher := t.peak < LevelPage
		t.level, t.peak, t.acked = LevelPage, LevelPage, false
		begins := o.flip(p, t)
		o.loud(p, t, EventEscalated, t.flapping && !higher)
		o.announce(p, t, begins)
	case t.level == LevelPage && at == "warn" && p.lasted(is("warn"), is("page")) >= r.Clear.For:
		t.level = LevelWarn
		o.say(p, t, EventDeescalated, t.flapping)
	}
}

func (o *oracle) resolve(p *past, t *trouble) {
	t.open, t.recovering, t.acked, t.ended = false, false, false, o.now
	o.say(p, t, EventResolved, t.flapping)
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

// unmute tells the truth about all that was muted and is so no more.
func (o *oracle) unmute(ended []Silence) {
	for key, p := range o.keys {
		covers := func(s Silence) bool { return s.Rule == key.Rule && (s.Pool == "" || s.Pool == key.Pool) }
		if !slices.ContainsFunc(ended, covers) || o.muted(key) {
			continue
		}
		for n := range p.told {
			t := &p.told[n]
			if !t.due && (!t.open || p.opened) {
				continue
			}
			t.due, t.reminded = false, o.now
			o.say(p, t, EventUnmuted, false)
		}
	}
}

// pass does what time alone brings about.
func (o *oracle) pass(p *past) {
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
		o.loud(p, t, EventAckExpired, false)
	}
	every := o.c.Remind.Warn
	if t.level == LevelPage {
		every = o.c.Remind.Page
	}
	if every > 0 && !t.acked && !o.muted(p.key) && o.now.Sub(t.reminded) >= every {
		o.loud(p, t, EventReminder, false)
	}
}

func (o *oracle) flapOn(p *past, t *trouble) {
	switch {
	case !t.flapping || t.gone:
	case o.recent(p) < o.c.Flap.Count:
		t.flapping = false
		o.say(p, t, EventSteady, false)
	case o.now.Sub(t.digest) >= o.c.Flap.Digest && p.flips[len(p.flips)-1].After(t.digest):
		o.say(p, t, EventFlapping, false)
		t.digest = o.now
	}
	o.age(p)
}
