package control

import (
	"context"
	"time"
)

// Kind says what an Entry is about.
type Kind string

// The kinds of entries.
const (
	KindPress    Kind = "press"    // a button or a command in Slack
	KindDecision Kind = "decision" // of the engine: taken or withheld
	KindAction   Kind = "action"   // done through the admin API or a page; modes have changes instead
	KindAccess   Kind = "access"   // a login, a logout, or an attempt that was turned away
	KindDrill    Kind = "drill"    // what a drill did, or was stopped from doing
)

// Kinds returns every kind, in a fixed order.
func Kinds() []Kind { return []Kind{KindPress, KindDecision, KindAction, KindAccess, KindDrill} }

// Ending is what became of it.
type Ending string

// The endings of entries.
const (
	Done     Ending = "done"
	Refused  Ending = "refused"  // somebody asked for it who may not, or too late
	Withheld Ending = "withheld" // the engine might have, and did not
	Failed   Ending = "failed"
)

// Endings returns every ending, in a fixed order.
func Endings() []Ending { return []Ending{Done, Refused, Withheld, Failed} }

// Entry is something that was done, withheld or refused, for the audit. It is
// recorded and never altered. Changes of mode are recorded as a Change besides.
type Entry struct {
	ID      string    // UUIDv7
	Writer  string    // the process that made it
	At      time.Time // UTC, to the millisecond
	Kind    Kind
	Action  string // what was asked for: rollback, ack, login, drill run …
	Ending  Ending
	Pool    string // empty: none in particular
	Subject string // ID of an incident, a run or a change; empty: none
	Actor   string // who: a name, slack:U0123, engine
	Via     Via
	Reason  string            // in plain words, why it was done or not
	Inputs  map[string]string // what the decision rests on; no secret is among them
}

// Audit keeps entries. Note may be called from any goroutine, obeys its context,
// and leaves an entry that is there already alone.
type Audit interface {
	Note(context.Context, Entry) error
}
