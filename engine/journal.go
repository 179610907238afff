package engine

import (
	"context"
	"time"
)

// State is what is remembered of one rule in one pool. Times of dwelling are
// added up from monotonic steps; what passes while nothing runs adds nothing.
// Times of day are in UTC and whole milliseconds; lengths of time are to be kept
// to the nanosecond.
type State struct {
	Key      Key
	Phase    Phase
	Level    Level
	Incident string // ID of the open one, or of the latest while it may be reopened

	WarnFor      time.Duration // how long the warn threshold has been breached
	PageFor      time.Duration
	ClearFor     time.Duration // how long the value has been below clear
	BelowPageFor time.Duration // on page: how long it has been back at warn only
	IdleFor      time.Duration
	MissingFor   time.Duration // how long the value has been missing

	LastResolved time.Time   // when the latest incident was, for reopening
	FlapTimes    []time.Time // recent turns for the worse, oldest first, for flapping
	LastNotified time.Time   // when people were last told or reminded
	LastDigest   time.Time   // when the latest digest of a flapping was made
}

// Blank says whether nothing is remembered. A journal may drop a blank state.
func (s State) Blank() bool {
	return s.Phase == OK && s.Level == LevelNone && s.Incident == "" && len(s.FlapTimes) == 0 &&
		s.WarnFor == 0 && s.PageFor == 0 && s.ClearFor == 0 && s.BelowPageFor == 0 && s.IdleFor == 0 && s.MissingFor == 0 &&
		s.LastResolved.IsZero() && s.LastNotified.IsZero() && s.LastDigest.IsZero()
}

// Silence mutes what is sent about a rule.
type Silence struct {
	ID         string // UUIDv7
	Rule       string
	Pool       string // empty: all pools
	From       time.Time
	Until      time.Time
	By         string
	Reason     string
	EndHandled bool // its end has been dealt with
}

// Batch is what one step has changed. It is written whole or not at all.
type Batch struct {
	States    []State
	Incidents []Incident
	Events    []Event
	Silences  []Silence
}

// Empty says whether there is nothing to write.
func (b Batch) Empty() bool {
	return len(b.States) == 0 && len(b.Incidents) == 0 && len(b.Events) == 0 && len(b.Silences) == 0
}

// SavedState is what a journal gives back at a start.
type SavedState struct {
	States    []State
	Incidents []Incident // open ones, those that a state names, and those that are Due
	Silences  []Silence  // that have not been lifted
}

// Journal is the engine's memory. Saving also puts what is to be sent about the
// events into the outbox, in the same transaction; what that is, is not the
// engine's business. Both methods obey their context.
type Journal interface {
	// Save writes a batch. An event that is there already is left alone, so that
	// an attempt of unknown outcome can be repeated.
	Save(context.Context, Batch) error
	Load(context.Context) (SavedState, error)
}
