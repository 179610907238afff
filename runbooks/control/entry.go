package control

import (
	"context"
	"time"
)

// AuditKind says what an AuditEntry is about.
type AuditKind string

// The kinds of entries.
const (
	KindInteraction AuditKind = "press"    // a button or a command in Slack
	KindDecision    AuditKind = "decision" // of the engine: taken or withheld
	KindAction      AuditKind = "action"   // done through the admin API or a page; modes have changes instead
	KindAccess      AuditKind = "access"   // a login, a logout, or an attempt that was turned away
	KindDrill       AuditKind = "drill"    // what a drill did, or was stopped from doing
)

// AuditKinds returns every kind, in a fixed order.
func AuditKinds() []AuditKind {
	return []AuditKind{KindInteraction, KindDecision, KindAction, KindAccess, KindDrill}
}

// Result is what became of it.
type Result string

// The endings of entries.
const (
	Done     Result = "done"
	Refused  Result = "refused"  // somebody asked for it who may not, or too late
	Withheld Result = "withheld" // the engine might have, and did not
	Failed   Result = "failed"
)

// Results returns every ending, in a fixed order.
func Results() []Result { return []Result{Done, Refused, Withheld, Failed} }

// AuditEntry is something that was done, withheld or refused, for the audit. It is
// recorded and never altered. Changes of mode are recorded as a ModeChange besides.
type AuditEntry struct {
	ID      string    // UUIDv7
	Writer  string    // the process that made it
	At      time.Time // UTC, to the millisecond
	Kind    AuditKind
	Action  string // what was asked for: rollback, ack, login, drill run …
	Result  Result
	Pool    string // empty: none in particular
	Subject string // ID of an incident, a run or a change; empty: none
	Actor   string // who: a name, slack:U0123, engine
	Via     Via
	Reason  string            // in plain words, why it was done or not
	Inputs  map[string]string // what the decision rests on; no secret is among them
}

// AuditStore keeps entries. Note may be called from any goroutine, obeys its context,
// and leaves an entry that is there already alone.
type AuditStore interface {
	AppendAudit(context.Context, AuditEntry) error
}
