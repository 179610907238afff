package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"headgate/internal/writebehind"
)

// AuditKind says what an audit record is about.
type AuditKind string

// The kinds of records. All but KindMode are of an AuditEntry.
const (
	KindMode        AuditKind = "mode"     // a ModeChange
	KindInteraction AuditKind = "press"    // a button or a command in Slack
	KindDecision    AuditKind = "decision" // of the automatic rollback: made or withheld
	KindAction      AuditKind = "action"   // done through the admin API or a page; modes have changes instead
	KindAccess      AuditKind = "access"   // a login, a logout, or a rejected attempt
	KindDrill       AuditKind = "drill"    // what a drill did, or was prevented from doing
)

// AuditKinds returns the kinds of entries, in a fixed order.
func AuditKinds() []AuditKind {
	return []AuditKind{KindInteraction, KindDecision, KindAction, KindAccess, KindDrill}
}

// AuditResult is the result of an entry.
type AuditResult string

// The results of entries.
const (
	Done     AuditResult = "done"
	Refused  AuditResult = "refused"  // not allowed, or too late
	Withheld AuditResult = "withheld" // the automatic rollback could have acted, and did not
	Failed   AuditResult = "failed"
)

// AuditResults returns every result, in a fixed order.
func AuditResults() []AuditResult { return []AuditResult{Done, Refused, Withheld, Failed} }

// AuditEntry is something that was done, withheld or refused. It is recorded and never altered. Changes of mode are
// recorded as a ModeChange besides.
type AuditEntry struct {
	Kind    AuditKind         `json:"kind"`
	ID      string            `json:"id"`     // UUIDv7
	At      time.Time         `json:"at"`     // UTC, to the millisecond
	Action  string            `json:"action"` // what was asked for: rollback, ack, login, drill run …
	Result  AuditResult       `json:"result"`
	Pool    string            `json:"pool"`    // empty: none in particular
	Subject string            `json:"subject"` // ID of an incident, a run or a change; empty: none
	Actor   string            `json:"actor"`   // a name, slack:U0123, engine
	Via     Via               `json:"via"`
	Reason  string            `json:"reason"` // in plain words, why it was done or not
	Inputs  map[string]string `json:"inputs"` // what the decision rests on; holds no secret
	Writer  string            `json:"writer"` // the process that made it
}

// AuditRecord is a change of mode or an entry: exactly one of the two is set. In JSON it is that one's object, with its
// kind.
type AuditRecord struct {
	Change *ModeChange
	Entry  *AuditEntry
}

type kindOnly struct {
	Kind AuditKind `json:"kind"`
}

// MarshalJSON writes the change or the entry.
func (r AuditRecord) MarshalJSON() ([]byte, error) {
	if r.Change != nil {
		return json.Marshal(struct {
			kindOnly
			ModeChange
		}{kindOnly{KindMode}, *r.Change})
	}
	e := *r.Entry
	if e.Inputs == nil {
		e.Inputs = map[string]string{}
	}
	return json.Marshal(e)
}

// UnmarshalJSON reads the change or the entry.
func (r *AuditRecord) UnmarshalJSON(text []byte) error {
	var k kindOnly
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	if k.Kind == KindMode {
		*r = AuditRecord{Change: &ModeChange{}}
		return json.Unmarshal(text, r.Change)
	}
	*r = AuditRecord{Entry: &AuditEntry{}}
	return json.Unmarshal(text, r.Entry)
}

// At returns when it was.
func (r AuditRecord) At() time.Time {
	if r.Change != nil {
		return r.Change.At
	}
	return r.Entry.At
}

// ID returns the ID of the change or the entry.
func (r AuditRecord) ID() string {
	if r.Change != nil {
		return r.Change.ID
	}
	return r.Entry.ID
}

// ErrUnknownCursor is the error of a list of records, the audit among them, for a key that no page gave out.
var ErrUnknownCursor = errors.New("not a page key of this list; use the key that the page before gave")

// AuditQuery asks for a page of the audit.
type AuditQuery struct {
	Since time.Time // not before this; zero: no limit
	Pool  string    // empty: of all pools
	Kind  AuditKind // empty: of every kind
	After string    // the Next of the page before; empty: the first page
	Limit int       // at most so many
}

// AuditPage is a page of the audit, newest first.
type AuditPage struct {
	Items []AuditRecord `json:"items"`
	Next  string        `json:"next"` // key of the next page; empty: this is the last
}

// NewAuditPage returns changes and entries as one list, newest first.
func NewAuditPage(changes []ModeChange, entries []AuditEntry, next string) AuditPage {
	p := AuditPage{Items: make([]AuditRecord, 0, len(changes)+len(entries)), Next: next}
	for i := range changes {
		p.Items = append(p.Items, AuditRecord{Change: &changes[i]})
	}
	for i := range entries {
		p.Items = append(p.Items, AuditRecord{Entry: &entries[i]})
	}
	slices.SortStableFunc(p.Items, func(a, b AuditRecord) int {
		return cmp.Or(b.At().Compare(a.At()), cmp.Compare(b.ID(), a.ID()))
	})
	return p
}

// AuditStore records entries. AppendAudit may be called from any goroutine, obeys its context, and leaves an entry that
// exists already alone.
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
	if !slices.Contains(AuditKinds(), e.Kind) || !slices.Contains(AuditResults(), e.Result) ||
		!slices.Contains(Vias(), e.Via) {
		a.c.Log.Error("invalid audit entry", "kind", e.Kind, "result", e.Result, "via", e.Via)
		return
	}
	a.queue.Add([]AuditEntry{e})
}

// Run records until ctx has ended, and makes a last attempt then.
func (a *AuditLog) Run(ctx context.Context) { a.queue.Run(ctx) }
