package alerts

import (
	"context"
	"errors"

	"headgate/engine"
)

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
