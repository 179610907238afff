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
	ToFallback Destination = "fallback" // when another refuses permanently
)

// Kind says how a delivery is sent.
type Kind string

// The kinds of deliveries.
const (
	Post  Kind = "post"  // the incident's message
	Edit  Kind = "edit"  // of that message; only the newest counts
	Reply Kind = "reply" // in its thread; may ping
)

// State is the progress of a delivery.
type State string

// The states of a delivery.
const (
	Queued    State = "queued"
	Sending   State = "sending"
	Sent      State = "sent"
	Retry     State = "retry"
	Uncertain State = "uncertain"
	Dead      State = "dead"
	Dropped   State = "dropped" // superseded or silenced
)

// Delivery is one thing to send. There is at most one of each incident, sequence, kind and destination.
type Delivery struct {
	ID           string       `json:"id"` // UUIDv7
	Incident     string       `json:"incident"`
	Seq          int          `json:"seq"`
	Kind         Kind         `json:"kind"`
	Destination  Destination  `json:"destination"`
	Notification Notification `json:"notification"` // its content
	Created      time.Time    `json:"created_at,omitzero"`

	State             State     `json:"state"`
	Attempts          int       `json:"attempts"`
	LastAttempt       time.Time `json:"tried_at,omitzero"`  // start of the latest attempt; zero before the first
	NotBefore         time.Time `json:"next_at,omitzero"`   // of the next attempt
	Reason            string    `json:"reason"`             // of the latest failure; holds no secret
	PlainText         bool      `json:"plain_text"`         // its blocks were refused: sent as text from now on
	AmbiguousAttempts int       `json:"ambiguous_attempts"` // times it was sent again without confirmation
	Ref               Ref       `json:"ref"`                // once sent
}

// Ref is the position of a message. Both parts are opaque text: a Slack ts loses its last digits as a number.
type Ref struct {
	Channel string `json:"channel"`
	TS      string `json:"ts"`
}

// Notification is the content of a delivery, as facts. A Notifier renders them.
type Notification struct {
	Incident          engine.Incident `json:"incident"`
	Event             engine.Event    `json:"event"`
	Mode              string          `json:"mode"` // of the pool at that moment
	ModeSince         time.Time       `json:"mode_since,omitzero"`
	Running           int             `json:"running"`    // tasks of the pool in flight at that moment
	Queued            int             `json:"queued"`     // tasks of the pool waiting at that moment
	LoadKnown         bool            `json:"load_known"` // Running and Queued are known
	Ping              bool            `json:"ping"`       // people are mentioned
	Combined          bool            `json:"combined"`   // fired and resolved before anything could be sent
	Unrecorded        bool            `json:"unrecorded"` // the database could not be written
	Drill             bool            `json:"drill"`
	Silenced          bool            `json:"silenced"`
	Late              bool            `json:"late"`               // sent much later than the event
	PossibleDuplicate bool            `json:"possible_duplicate"` // an earlier copy may have arrived

	FallbackFrom   Destination `json:"fallback_from"`   // where it should have gone; empty: not at the fallback
	FallbackReason string      `json:"fallback_reason"` // why it did not arrive there
}

// Outcome classifies an attempt of a notifier.
type Outcome uint8

// The outcomes of an attempt.
const (
	Delivered        Outcome = iota // Ref is its position
	RetryLater                      // not delivered; RetryAfter is the delay, 0: the backoff's
	Ambiguous                       // unknown: looked up before it is sent again
	PermanentFailure                // this destination will never accept it (archived, not a member, revoked): use the fallback
	Malformed                       // refused for its form: send it again as plain text
	ThreadGone                      // the incident's message was deleted: post a new one
)

// SendResult is what a notifier reports of an attempt.
type SendResult struct {
	Outcome    Outcome
	Ref        Ref
	RetryAfter time.Duration
	Reason     string // for people and the record; holds no secret
}

// Notifier sends to one kind of receiver. Its methods obey their context, do not retry, and may be called from any
// goroutine. Thread is the reference of the incident's message at the destination, zero for the first post.
type Notifier interface {
	// Send makes one attempt; plain asks for text without blocks.
	Send(ctx context.Context, d Delivery, thread Ref, plain bool) SendResult
	// Lookup searches for a delivery whose outcome is not known. It returns its Ref and true if it arrived.
	Lookup(ctx context.Context, d Delivery, thread Ref) (Ref, bool, error)
}

// Key identifies a delivery. The ID is for people and logs: a delivery that is planned twice gets two of them.
type Key struct {
	Incident    string
	Seq         int
	Kind        Kind
	Destination Destination
}

// Key returns the delivery's key.
func (d Delivery) Key() Key {
	return Key{Incident: d.Incident, Seq: d.Seq, Kind: d.Kind, Destination: d.Destination}
}

// Pending says whether a delivery in this state still has to be sent.
func (s State) Pending() bool {
	return s == Queued || s == Sending || s == Retry || s == Uncertain
}

// Thread is the reference of an incident's message at a destination.
type Thread struct {
	Incident    string
	Destination Destination
	Ref         Ref // zero: the message is gone
}

// Changes are what an outbox writes atomically.
type Changes struct {
	// Add holds deliveries that are inserted unless one with their key exists; an existing one stays as it is, whatever
	// its state.
	Add []Delivery
	// Update holds deliveries that replace the one with their key, except its ID and Created, or are inserted. That may
	// be before the incident itself has been recorded: what could not be written at first is written later, in any
	// order.
	Update []Delivery
	// Threads are set, or removed where the Ref is zero. They are kept as long as the incident: edits need them after
	// every delivery has been sent.
	Threads []Thread
}

// Empty says whether there are no changes.
func (c Changes) Empty() bool {
	return len(c.Add) == 0 && len(c.Update) == 0 && len(c.Threads) == 0
}

// Outbox is the durable queue of a dispatcher. Changes survive the end of the process once Save has returned without an
// error, and no delivery is ever lost. All methods obey their context and may be called from any goroutine, but only
// one dispatcher works on an outbox.
type Outbox interface {
	// Pending returns at most limit deliveries whose state is pending, in order of Created, then Incident, Seq, ID.
	Pending(ctx context.Context, limit int) ([]Delivery, error)
	// Save writes all changes or none.
	Save(ctx context.Context, c Changes) error
	// Thread returns the reference of an incident's message at a destination, or the zero Ref.
	Thread(ctx context.Context, incident string, to Destination) (Ref, error)
}

// TxView reads the record within the transaction that writes a batch.
type TxView struct {
	// Posted returns the destinations for which the incident has a delivery that was not dropped, in any order. Nil:
	// not known.
	Posted func(incident string) []Destination
}

// PlanFunc returns the deliveries of a batch; Planner.Plan is one. A journal calls it within the transaction that
// writes the batch, and adds the deliveries (in the sense of Changes.Add) as they are: some are planned as dropped,
// only for the record. It does not block and keeps none of its arguments.
type PlanFunc func(b engine.Batch, view TxView) []Delivery

// ErrLookupUnavailable is returned by a Notifier's Lookup, wrapped or not, when repeating it will not help: a webhook
// has no history, or the token may not read it.
var ErrLookupUnavailable = errors.New("delivery cannot be confirmed: look-up unavailable")
