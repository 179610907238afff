package engine

import "time"

// zone is where a value stands against a rule's thresholds.
type zone uint8

const (
	zoneNone zone = iota // nothing was evaluated before
	zoneMissing
	zoneIdle
	zoneClear // below clear
	zoneHold  // between clear and the first threshold
	zoneWarn
	zonePage
)

func (z zone) known() bool { return z >= zoneClear }

func (z zone) breach() bool { return z >= zoneWarn }

// zoneOf places a value. What is not a number is missing, whatever it is called.
func (r Rule) zoneOf(v Value) zone {
	switch {
	case v.Knowing == Idle:
		return zoneIdle
	case v.Knowing != Known || !finite(v.V):
		return zoneMissing
	case r.Page.Set && v.V >= r.Page.At:
		return zonePage
	case r.Warn.Set && v.V >= r.Warn.At:
		return zoneWarn
	case v.V < r.Clear.Below:
		return zoneClear
	default:
		return zoneHold
	}
}

// slot is a state, and where its value stood at the evaluation before.
type slot struct {
	State
	zone zone
	last Value
}

// dwell moves the clocks. Time counts only between two evaluations that agree:
// how long something has been so is what was seen of it.
func (s *slot) dwell(r Rule, z zone, elapsed time.Duration, c Config) {
	prev := s.zone
	s.zone = z
	s.dwellUnknown(prev, z, elapsed, c)
	if !z.known() {
		return
	}
	s.dwellBreach(r, prev, z, elapsed)
	s.dwellCalm(r, prev, z, elapsed)
}

// dwellUnknown moves the clocks of not knowing. While a value is missing or
// means nothing, all other clocks stand still.
func (s *slot) dwellUnknown(prev, z zone, elapsed time.Duration, c Config) {
	switch {
	case z != zoneMissing:
		s.LostFor = 0
	case prev == zoneMissing:
		s.LostFor = min(s.LostFor+elapsed, c.MissingGrace)
	}
	switch {
	case z.known() || s.Phase == OK:
		s.IdleFor = 0
	case z == zoneIdle && prev == zoneIdle:
		s.IdleFor = min(s.IdleFor+elapsed, c.IdleClose)
	}
}

func (s *slot) dwellBreach(r Rule, prev, z zone, elapsed time.Duration) {
	switch {
	case !r.Warn.Set || z == zoneClear:
		s.WarnFor = 0
	case z.breach() && prev.breach():
		s.WarnFor = grow(s.WarnFor, elapsed, r.Warn.For)
	}
	switch {
	case !r.Page.Set || z == zoneClear || r.Warn.Set && z != zonePage:
		s.PageFor = 0
	case z == zonePage && prev == zonePage:
		s.PageFor = grow(s.PageFor, elapsed, r.Page.For)
	}
}

// dwellCalm moves the clocks of an open incident that may be getting better.
func (s *slot) dwellCalm(r Rule, prev, z zone, elapsed time.Duration) {
	switch {
	case !s.open() || z.breach():
		s.ClearFor = 0
	case z == zoneClear && prev == zoneClear:
		s.ClearFor = grow(s.ClearFor, elapsed, r.Clear.For)
	}
	switch {
	case s.Level != LevelPage || z == zonePage:
		s.CalmFor = 0
	case z == zoneWarn && prev == zoneWarn:
		s.CalmFor = grow(s.CalmFor, elapsed, r.Clear.For)
	}
}

// grow adds to a clock that need not go beyond limit.
func grow(d, by, limit time.Duration) time.Duration {
	return max(d, min(d+by, limit))
}

// open says whether the state has an incident that is not over.
func (s *slot) open() bool { return s.Phase == Firing || s.Phase == Recovering }

// reached returns the level whose threshold has been breached for long enough.
func (s *slot) reached(r Rule) Level {
	switch {
	case r.Page.Set && s.zone == zonePage && s.PageFor >= r.Page.For:
		return LevelPage
	case r.Warn.Set && s.zone.breach() && s.WarnFor >= r.Warn.For:
		return LevelWarn
	default:
		return LevelNone
	}
}
