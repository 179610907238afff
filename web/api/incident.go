package api

import (
	"context"
	"errors"
	"time"

	"headgate/engine"
)

// ErrNoIncident says that an incident is not in the record.
var ErrNoIncident = errors.New("no such incident in the record")

// MaxTimeline is how many events and how many deliveries of one incident are
// shown at most, the newest ones.
const MaxTimeline = 1000

// MaxMessage is how much of a message is shown, in characters.
const MaxMessage = 2000

// IncidentReader reads the record of incidents. Both methods obey their context.
type IncidentReader interface {
	// List returns incidents, newest first, or ErrUnknownCursor. Open is not asked for
	// by the API, which knows the open ones without it.
	List(ctx context.Context, q IncidentQuery) (IncidentPage, error)
	// Incident returns all that is recorded of one, or ErrNoIncident.
	Incident(ctx context.Context, id string) (IncidentDetail, error)
}

// IncidentQuery asks for incidents. Pool and Rule are empty for all.
type IncidentQuery struct {
	Open  bool      // only those that are not over
	Since time.Time // opened not before this; zero: from the first on
	Pool  string
	Rule  string
	After string // the Next of the page before; empty: the first page
	Limit int    // at most so many, 1 to MaxPage
}

// IncidentPage is a page of the record, newest first.
type IncidentPage struct {
	Items []engine.Incident
	Next  string // the key of the next page, empty if there is none
}

// IncidentDetail is all that is recorded of one incident.
type IncidentDetail struct {
	Incident engine.Incident
	// Events and Deliveries are in the order of their numbers. Of more than
	// MaxTimeline the newest are there, and Cut is set.
	Events     []engine.Event
	Deliveries []DeliveryRecord
	Truncated  bool
}

// DeliveryRecord is how far one message about an incident has come.
type DeliveryRecord struct {
	ID                string
	Seq               int    // of the event that it tells of
	Kind              string // post, edit or reply
	Destination       string // warn, page, drills or fallback
	State             string // queued, sending, retry, uncertain, sent, dead or dropped
	Attempts          int
	Created           time.Time
	Tried             time.Time // start of the latest attempt; zero before the first
	NotBefore         time.Time // of the next attempt, while it is pending
	Reason            string    // why the latest attempt failed; holds no secret
	Channel           string    // where it came to stand, once sent
	AmbiguousAttempts int       // times that it was sent again without knowing whether it had arrived
	Text              string    // what it says, as plain text of some lines; cut at MaxMessage
}
