package alerts

import (
	"context"
	"errors"
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

// Key names a delivery: there is at most one of each.
type Key struct {
	Incident    string
	Seq         int
	Kind        Kind
	Destination Destination
}

// Key returns the delivery's name, by which an outbox tells it from others. The
// ID is for people and logs: a delivery that is planned twice gets two of them.
func (d Delivery) Key() Key {
	return Key{Incident: d.Incident, Seq: d.Seq, Kind: d.Kind, Destination: d.Destination}
}

// Pending says whether something remains to be done about a delivery in this
// state.
func (s State) Pending() bool {
	return s == Queued || s == Sending || s == Retry || s == Uncertain
}

// Thread is where an incident's message stands at a destination.
type Thread struct {
	Incident    string
	Destination Destination
	Ref         Ref // zero: nowhere any more
}

// Changes is what an outbox writes in one piece.
type Changes struct {
	// Add holds deliveries that are put in only if none with their key is there;
	// one that is there stays as it is, whatever its state.
	Add []Delivery
	// Update holds deliveries that replace the one with their key, but for its ID
	// and Created, or are put in if there is none. That may be before the incident
	// itself has been recorded: what could not be written at first is written
	// later, in any order.
	Update []Delivery
	// Roots are set, or removed where the Ref is zero. They are kept for as long as
	// the incident is: edits need them after every delivery has been sent.
	Threads []Thread
}

// Empty says whether there is nothing to write.
func (c Changes) Empty() bool {
	return len(c.Add) == 0 && len(c.Update) == 0 && len(c.Threads) == 0
}

// Outbox is the memory of a deliverer. What Save has returned without an error
// survives the end of the process; whatever else it does, it never loses a
// delivery. All methods obey their context and may be called from any goroutine,
// but only one deliverer works on an outbox.
type Outbox interface {
	// Pending returns the deliveries whose state is pending, with their notes, at
	// most limit of them: in order of Created, then Incident, Seq, ID.
	Pending(ctx context.Context, limit int) ([]Delivery, error)
	// Save writes all of the changes or none.
	Save(ctx context.Context, c Changes) error
	// Thread returns where an incident's message stands at a destination, or the
	// zero Ref.
	Thread(ctx context.Context, incident string, to Destination) (Ref, error)
}

// TxView is what the record says while a batch is being written. A journal
// answers from within its transaction.
type TxView struct {
	// Posted returns the destinations for which the incident has a delivery that
	// was not dropped, in any order. Nil: nothing is known.
	Posted func(incident string) []Destination
}

// PlanFunc says what is to be sent about a batch; Planner.Plan is one. A journal
// calls it within the transaction that writes the batch and adds (in the sense
// of Changes.Add) what it returns, as it is: some of it is dropped from the
// start, and only recorded. It does not block and keeps nothing of what it is
// given.
type PlanFunc func(b engine.Batch, k TxView) []Delivery

// ErrLookupUnavailable is what a Notifier's Find returns, wrapped or not, when asking
// again later will not help either: a webhook has no history, or the token may
// not read it.
var ErrLookupUnavailable = errors.New("it cannot be found out whether the message arrived")
