package control

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"headgate/internal/writebehind"
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

// AuditResult is what became of it.
type AuditResult string

// The endings of entries.
const (
	Done     AuditResult = "done"
	Refused  AuditResult = "refused"  // somebody asked for it who may not, or too late
	Withheld AuditResult = "withheld" // the engine might have, and did not
	Failed   AuditResult = "failed"
)

// AuditResults returns every ending, in a fixed order.
func AuditResults() []AuditResult { return []AuditResult{Done, Refused, Withheld, Failed} }

// AuditEntry is something that was done, withheld or refused, for the audit. It is
// recorded and never altered. Changes of mode are recorded as a ModeChange besides.
type AuditEntry struct {
	ID      string    // UUIDv7
	Writer  string    // the process that made it
	At      time.Time // UTC, to the millisecond
	Kind    AuditKind
	Action  string // what was asked for: rollback, ack, login, drill run …
	Result  AuditResult
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

// AuditSink takes entries without blocking. An AuditLog is one.
type AuditSink interface{ Append(AuditEntry) }

// maxPendingEntries bounds the entries that wait to be recorded.
const maxPendingEntries = 10_000

// AuditLogConfig is what an AuditLog is made of. All of it must be there.
type AuditLogConfig struct {
	Store   AuditStore
	Writer  string // names this process in the record
	Log     *slog.Logger
	Metrics *Metrics
}

// AuditLog records entries in the background, so that no action waits for a disk. Entries that cannot be recorded
// are retried in order; those that are still pending when the process ends are lost. Its methods may be called from
// any goroutine.
type AuditLog struct {
	c     AuditLogConfig
	queue *writebehind.Queue[[]AuditEntry]
}

// NewAuditLog returns an AuditLog that records once Run is called.
func NewAuditLog(c AuditLogConfig) *AuditLog {
	return &AuditLog{c: c, queue: writebehind.New(writebehind.Config[[]AuditEntry]{
		Batch: writebehind.List[AuditEntry](maxPendingEntries, 1),
		Write: func(ctx context.Context, b []AuditEntry) error { return c.Store.AppendAudit(ctx, b[0]) },
		OnError: func(err error, pending int) {
			c.Metrics.countError("record_entry")
			c.Log.Error("audit entry not recorded, retrying", "pending", pending, "error", err)
		},
		OnDropped: func(n int) { c.Log.Error("audit backlog full, entries dropped", "count", n) },
	})}
}

// Append queues an entry without blocking, and fills in ID, writer and time where they are missing. When the backlog
// is full the entry is dropped, counted and logged: callers that record what others attempt must limit how often.
func (a *AuditLog) Append(e AuditEntry) {
	if e.ID == "" {
		e.ID = newID()
	}
	if e.Writer == "" {
		e.Writer = a.c.Writer
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	// An invalid entry would hold up all that come after it.
	if !slices.Contains(AuditKinds(), e.Kind) || !slices.Contains(AuditResults(), e.Result) || !slices.Contains(Vias(), e.Via) {
		a.c.Log.Error("invalid audit entry", "kind", e.Kind, "result", e.Result, "via", e.Via)
		return
	}
	a.queue.Add([]AuditEntry{e})
}

// Run records until ctx has ended, and makes a last attempt then.
func (a *AuditLog) Run(ctx context.Context) { a.queue.Run(ctx) }
