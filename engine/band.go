package engine

import "time"

// band is where a value stands against a rule's thresholds.
type band uint8

const (
	bandNone band = iota // nothing was evaluated before
	bandMissing
	bandIdle
	bandClear // below clear
	bandHold  // between clear and the first threshold
	bandWarn
	bandPage
)

func (z band) hasValue() bool { return z >= bandClear }

func (z band) breach() bool { return z >= bandWarn }

// bandOf places a value. What is not a number is missing, whatever it is called.
func (r Rule) bandOf(v Value) band {
	switch {
	case v.Quality == Idle:
		return bandIdle
	case v.Quality != Valid || !finite(v.V):
		return bandMissing
	case r.Page.Set && v.V >= r.Page.At:
		return bandPage
	case r.Warn.Set && v.V >= r.Warn.At:
		return bandWarn
	case v.V < r.Clear.Below:
		return bandClear
	default:
		return bandHold
	}
}

// ruleState is a state, and where its value stood at the evaluation before.
type ruleState struct {
	State
	band band
	last Value
}

// updateDurations moves the clocks. Time counts only between two evaluations that agree:
// how long something has been so is what was seen of it.
func (s *ruleState) updateDurations(r Rule, z band, elapsed time.Duration, c Config) {
	prev := s.band
	s.band = z
	s.updateNoDataDurations(prev, z, elapsed, c)
	if !z.hasValue() {
		return
	}
	s.updateBreachDurations(r, prev, z, elapsed)
	s.updateRecoveryDurations(r, prev, z, elapsed)
}

// updateNoDataDurations moves the clocks of not knowing. While a value is missing or
// means nothing, all other clocks stand still.
func (s *ruleState) updateNoDataDurations(prev, z band, elapsed time.Duration, c Config) {
	switch {
	case z != bandMissing:
		s.MissingFor = 0
	case prev == bandMissing:
		s.MissingFor = min(s.MissingFor+elapsed, c.MissingGrace)
	}
	switch {
	case z.hasValue() || s.Phase == OK:
		s.IdleFor = 0
	case z == bandIdle && prev == bandIdle:
		s.IdleFor = min(s.IdleFor+elapsed, c.IdleClose)
	}
}

func (s *ruleState) updateBreachDurations(r Rule, prev, z band, elapsed time.Duration) {
	switch {
	case !r.Warn.Set || z == bandClear:
		s.WarnFor = 0
	case z.breach() && prev.breach():
		s.WarnFor = addCapped(s.WarnFor, elapsed, r.Warn.For)
	}
	switch {
	case !r.Page.Set || z == bandClear || r.Warn.Set && z != bandPage:
		s.PageFor = 0
	case z == bandPage && prev == bandPage:
		s.PageFor = addCapped(s.PageFor, elapsed, r.Page.For)
	}
}

// updateRecoveryDurations moves the clocks of an open incident that may be getting better.
func (s *ruleState) updateRecoveryDurations(r Rule, prev, z band, elapsed time.Duration) {
	switch {
	case !s.open() || z.breach():
		s.ClearFor = 0
	case z == bandClear && prev == bandClear:
		s.ClearFor = addCapped(s.ClearFor, elapsed, r.Clear.For)
	}
	switch {
	case s.Level != LevelPage || z == bandPage:
		s.BelowPageFor = 0
	case z == bandWarn && prev == bandWarn:
		s.BelowPageFor = addCapped(s.BelowPageFor, elapsed, r.Clear.For)
	}
}

// addCapped adds to a clock that need not go beyond limit.
func addCapped(d, by, limit time.Duration) time.Duration {
	return max(d, min(d+by, limit))
}

// open says whether the state has an incident that is not over.
func (s *ruleState) open() bool { return s.Phase == Firing || s.Phase == Recovering }

// reachedLevel returns the level whose threshold has been breached for long enough.
func (s *ruleState) reachedLevel(r Rule) Level {
	switch {
	case r.Page.Set && s.band == bandPage && s.PageFor >= r.Page.For:
		return LevelPage
	case r.Warn.Set && s.band.breach() && s.WarnFor >= r.Warn.For:
		return LevelWarn
	default:
		return LevelNone
	}
}
