package engine

import "time"

// Key names a rule's state: one for each rule and pool.
type Key struct{ Rule, Pool string }

// Phase is where a rule's state is.
type Phase uint8

// The phases. Resolved is where an incident ends; the state itself goes back to OK.
const (
	OK Phase = iota
	Pending
	Firing
	Recovering
)

// Resolution is why an incident ended.
type Resolution string

// The resolutions.
const (
	Recovered   Resolution = "recovered"
	NoTraffic   Resolution = "no_traffic"   // idle for long enough
	RuleDeleted Resolution = "rule_deleted" // the rule, or its pool, is gone
)

// Incident is one trouble, from first firing to resolved: it spans warn and
// page, and short recoveries. Alerts about it are edits of one message.
type Incident struct {
	ID         string // UUIDv7
	Key        Key
	Level      Level // now
	Peak       Level // the highest so far
	Opened     time.Time
	Changed    time.Time  // of Level, or reopened
	Ended      time.Time  // zero while open
	Resolution Resolution // once ended

	Value     float64 // the latest known one
	Threshold float64 // of Level, at the latest change
	Unit      string
	Summary   string // these four as the rule had them at the latest change
	Impact    string
	Runbook   string
	Action    string

	Seq         int // of the latest event, from 1
	ReopenCount int // times that it came back within the reopen window
	Flapping    bool
	AckedBy     string
	AckUntil    time.Time // zero: not acknowledged

	Notified      bool // some event of it was not muted
	PendingUnmute bool // some event was muted: the truth is due when the silence ends
}

// Open says whether the trouble is not over.
func (i Incident) Open() bool { return i.Ended.IsZero() }

// EventKind is what happened to an incident.
type EventKind string

// The kinds of events.
const (
	EventOpened      EventKind = "opened"
	EventEscalated   EventKind = "escalated"   // warn → page: pierces an acknowledgement
	EventDeescalated EventKind = "deescalated" // page → warn: no ping
	EventRecovering  EventKind = "recovering"
	EventRefired     EventKind = "refired"  // from recovering, before it was resolved
	EventReopened    EventKind = "reopened" // after it was resolved, within the window
	EventResolved    EventKind = "resolved"
	EventFlapping    EventKind = "flapping" // it comes and goes: at first, and then as a digest
	EventSteady      EventKind = "steady"   // it has stopped flapping: no ping
	EventAcked       EventKind = "acknowledged"
	EventAckExpired  EventKind = "ack_expired"
	EventReminder    EventKind = "reminder"
	EventUnmuted     EventKind = "silence_ended" // the current truth is due
)

// Event is one step in the life of an incident.
type Event struct {
	ID       string // UUIDv7
	Incident string
	Seq      int
	Kind     EventKind
	At       time.Time
	Level    Level
	Value    float64
	By       string // who acknowledged, or lifted the silence
	Text     string // what the kind alone does not say; empty: nothing

	Muted    bool // a silence covered it: it is recorded, not sent
	Digested bool // part of a flapping: no ping of its own
	Count    int  // of a flapping: flips within the window, at least
}
