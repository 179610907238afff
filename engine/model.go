package engine

import (
	"context"
	"reflect"
	"time"
)

// Key names a rule's state: one for each rule and pool.
type Key struct {
	Rule string `json:"rule"`
	Pool string `json:"pool"` // empty: the whole process
}

// Phase is where a rule's state is. Its text is ok, pending, firing or recovering.
type Phase uint8

// The phases. A state whose incident is resolved goes back to OK.
const (
	OK Phase = iota
	Pending
	Firing
	Recovering
)

func phaseNames() []string { return []string{"ok", "pending", "firing", "recovering"} }

// String returns the phase in lower case.
func (p Phase) String() string { return enumName(p, phaseNames()) }

// MarshalText returns what String does.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts what String returns.
func (p *Phase) UnmarshalText(text []byte) error { return parseEnum(p, text, phaseNames()) }

// Resolution is why an incident ended.
type Resolution string

// The resolutions.
const (
	Recovered   Resolution = "recovered"
	NoTraffic   Resolution = "no_traffic"   // idle for long enough
	RuleDeleted Resolution = "rule_deleted" // the rule or its pool is gone, or the incident duplicates a newer one of its rule
)

// Incident is one problem, from first firing to resolved: it spans warn and page, and short recoveries. Alerts
// about it are edits of one message. It is the shape that the API, the pages, the command line and the record share.
type Incident struct {
	ID         string     `json:"id"` // UUIDv7
	Key                   // of its rule
	Level      Level      `json:"level"` // now
	Peak       Level      `json:"peak"`  // the highest so far
	Opened     time.Time  `json:"opened_at"`
	Changed    time.Time  `json:"changed_at"` // when Level changed, or the incident was reopened
	Ended      time.Time  `json:"ended_at,omitzero"`
	Resolution Resolution `json:"end_reason,omitempty"` // empty while open

	Value     float64 `json:"value"`     // the latest valid one
	Threshold float64 `json:"threshold"` // of Level, at the latest change
	Unit      string  `json:"unit"`
	Summary   string  `json:"summary"` // this and the next three are the rule's, as of the latest change
	Impact    string  `json:"impact"`
	Runbook   string  `json:"runbook"`
	Action    string  `json:"action"`

	Seq         int       `json:"seq"`      // of the latest event, from 1
	ReopenCount int       `json:"reopened"` // how often it was reopened within the reopen window
	Flapping    bool      `json:"flapping"`
	AckedBy     string    `json:"acked_by,omitempty"`
	AckUntil    time.Time `json:"ack_until,omitzero"` // zero: not acknowledged

	Notified      bool `json:"notified"`       // at least one of its events was not muted
	PendingUnmute bool `json:"pending_unmute"` // an event was muted: notify when the silence ends
}

// Open says whether the incident is not resolved.
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
	EventUnmuted     EventKind = "silence_ended" // the current state is sent

	// Annotations: what people, or headgate by itself, did about an incident.
	EventMode     EventKind = "mode_changed" // of the incident's pool
	EventSilenced EventKind = "silenced"
	EventNote     EventKind = "noted" // Text says what
)

// IsAnnotation says whether the kind is one of those that an Annotation may have.
func (k EventKind) IsAnnotation() bool { return k == EventMode || k == EventSilenced || k == EventNote }

// Event is one step in the life of an incident.
type Event struct {
	ID       string    `json:"id"` // UUIDv7
	Incident string    `json:"incident"`
	Seq      int       `json:"seq"`
	Kind     EventKind `json:"kind"`
	At       time.Time `json:"at"`
	Level    Level     `json:"level"`
	Value    float64   `json:"value"`
	By       string    `json:"by"`   // who acknowledged, or ended the silence
	Text     string    `json:"text"` // what the kind alone does not say; usually empty

	Muted    bool `json:"muted"`    // covered by a silence: recorded, not sent
	Digested bool `json:"digested"` // part of a flapping: not notified separately
	Count    int  `json:"count"`    // of a flapping: flaps within the window, at least
}

// State is what the engine remembers of one rule in one pool. Its durations add up monotonic steps; time in which
// nothing runs adds nothing. Times of day are in UTC and whole milliseconds; durations are kept to the nanosecond.
type State struct {
	Key
	Phase    Phase  `json:"phase"`
	Level    Level  `json:"level"`
	Incident string `json:"incident"` // ID of the open one, or of the latest while it may be reopened

	WarnFor      time.Duration `json:"warn_ns"` // how long the warn threshold has been breached
	PageFor      time.Duration `json:"page_ns"`
	ClearFor     time.Duration `json:"clear_ns"`      // how long the value has been below clear
	BelowPageFor time.Duration `json:"below_page_ns"` // on page: how long the value has been back at warn
	IdleFor      time.Duration `json:"idle_ns"`
	MissingFor   time.Duration `json:"missing_ns"` // how long the value has been missing

	LastResolved time.Time   `json:"last_resolved,omitzero"` // of the latest incident, for reopening
	FlapTimes    []time.Time `json:"flap_times,omitempty"`   // recent flaps, oldest first
	LastNotified time.Time   `json:"last_notified,omitzero"` // of the latest notification or reminder
	LastDigest   time.Time   `json:"last_digest,omitzero"`   // of the latest digest of a flapping
}

// Blank says whether nothing is remembered. A journal may drop a blank state.
func (s State) Blank() bool {
	flaps := len(s.FlapTimes)
	s.Key, s.FlapTimes = Key{}, nil
	return flaps == 0 && reflect.ValueOf(s).IsZero()
}

// Silence mutes what is sent about a rule.
type Silence struct {
	ID         string    `json:"id"` // UUIDv7
	Rule       string    `json:"rule"`
	Pool       string    `json:"pool"` // empty: all pools
	From       time.Time `json:"from"`
	Until      time.Time `json:"until"`
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	EndHandled bool      `json:"-"` // its end has been processed
}

// Batch is what one step has changed. It is saved as a whole or not at all.
type Batch struct {
	States    []State
	Incidents []Incident
	Events    []Event
	Silences  []Silence
}

// Empty says whether nothing has changed.
func (b Batch) Empty() bool {
	return len(b.States) == 0 && len(b.Incidents) == 0 && len(b.Events) == 0 && len(b.Silences) == 0
}

// SavedState is what a journal returns at a start.
type SavedState struct {
	States    []State
	Incidents []Incident // open ones, those that a state names, and those that are pending unmute
	Silences  []Silence  // whose end has not been processed
}

// Journal is the engine's record. Save also puts the notifications of the events into the outbox, in the same
// transaction; the journal decides which. Both methods obey their context.
type Journal interface {
	// Save writes a batch. It skips an event that exists already, so that an attempt of unknown outcome can be
	// repeated.
	Save(context.Context, Batch) error
	Load(context.Context) (SavedState, error)
}
