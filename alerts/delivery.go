package alerts

import (
	"context"
	"time"

	"headgate/engine"
)

// Destination is a role that settings map to a channel.
type Destination string

// The destinations.
const (
	ToWarn     Destination = "warn"
	ToPage     Destination = "page"
	ToDrills   Destination = "drills"
	ToFallback Destination = "fallback" // when the others refuse for good
)

// Kind is what a delivery does.
type Kind string

// The kinds of deliveries.
const (
	Post  Kind = "post"  // the incident's message
	Edit  Kind = "edit"  // of that message; only the newest one counts
	Reply Kind = "reply" // in its thread; may ping
)

// State is how far a delivery has come.
type State string

// The states of a delivery.
const (
	Queued    State = "queued"
	Sending   State = "sending"
	Sent      State = "sent"
	Retry     State = "retry"
	Uncertain State = "uncertain"
	Dead      State = "dead"
	Dropped   State = "dropped" // a newer edit made it pointless
)

// Delivery is one thing to send. There is at most one of each incident, sequence,
// kind and destination.
type Delivery struct {
	ID           string // UUIDv7
	Incident     string
	Seq          int
	Kind         Kind
	Destination  Destination
	Notification Notification // what it says
	Created      time.Time

	State             State
	Attempts          int
	LastAttempt       time.Time // start of the latest attempt; zero before the first
	NotBefore         time.Time // of the next attempt
	Reason            string    // why the latest attempt failed; never holds a secret
	PlainText         bool      // its blocks were refused: only text from now on
	AmbiguousAttempts int       // times that it was sent again without knowing whether it had arrived
	Ref               Ref       // where it came to stand, once sent
}

// Ref is where a message stands. Both are opaque text: a Slack ts loses its last
// digits as a number.
type Ref struct{ Channel, TS string }

// Notification is what a delivery says, as facts; the sender puts them into words and
// blocks.
type Notification struct {
	Incident          engine.Incident
	Event             engine.Event
	Mode              string // of the pool at that moment
	ModeSince         time.Time
	Running           int  // tasks of the pool in flight at that moment
	Queued            int  // tasks of the pool that waited
	LoadKnown         bool // both are known
	Ping              bool // people are to be disturbed
	Combined          bool // fired and resolved before anything could be sent
	Unrecorded        bool // the record could not be written
	Drill             bool
	Silenced          bool
	Late              bool // sent much later than it happened; the times say when
	PossibleDuplicate bool // it may be there already: a first copy could not be ruled out

	FallbackFrom   Destination // where it should have gone, if it was diverted
	FallbackReason string      // why it was; empty: it was not
}

// Outcome is what a sender knows after an attempt.
type Outcome uint8

// The outcomes of an attempt.
const (
	Delivered        Outcome = iota // Ref says where
	RetryLater                      // it did not; After says when to try again, 0: as the backoff has it
	Ambiguous                       // it may have: Find tells, before it is sent again
	PermanentFailure                // it never will there (archived, not a member, revoked): the fallback's turn
	Malformed                       // it was refused for its form: send it again as plain text
	ThreadGone                      // the message that it belongs to is not there any more: post a new one
)

// SendResult is what a sender reports.
type SendResult struct {
	Outcome    Outcome
	Ref        Ref
	RetryAfter time.Duration
	Reason     string // for people and the record; never holds a secret
}

// Notifier sends to one kind of receiver. Its methods obey their context, never
// retry by themselves, and may be called from any goroutine.
type Notifier interface {
	// Send tries once. Thread is where the incident's message stands at this
	// destination, empty for the first post; plain asks for text without blocks.
	Send(ctx context.Context, d Delivery, root Ref, plain bool) SendResult
	// Find looks for a delivery whose outcome is not known. It returns its Ref
	// and true if it arrived.
	Lookup(ctx context.Context, d Delivery, root Ref) (Ref, bool, error)
}
