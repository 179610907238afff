package control

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// maxPendingEntries bounds the entries that wait to be recorded.
const maxPendingEntries = 10_000

// AuditLogConfig is what an AuditLog is made of. All of it must be there.
type AuditLogConfig struct {
	Store   AuditStore
	Writer  string // names this process in the record
	Log     *slog.Logger
	Metrics *Metrics
}

// AuditLog records entries beside those who act: nobody waits for a disk, and
// what cannot be recorded is kept in order and tried again. What has not been
// recorded when the process ends is lost. Its methods may be called from any
// goroutine.
type AuditLog struct {
	c    AuditLogConfig
	wake chan struct{} // holds one: there is something to record

	mu      sync.Mutex
	pending []AuditEntry
	dropped int // that did not fit
}

// NewAuditLog returns an AuditLog that records once Run is called.
func NewAuditLog(c AuditLogConfig) *AuditLog { return &AuditLog{c: c, wake: make(chan struct{}, 1)} }

// Append takes an entry, and does not wait. An ID, the writer and a time that are
// missing are filled in. When too many wait already, it is dropped, counted and
// logged: whoever notes what others attempt must bound how often.
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
	if !validEntry(e) {
		a.c.Log.Error("an entry of the audit makes no sense", "kind", e.Kind, "ending", e.Result, "via", e.Via)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) >= maxPendingEntries {
		a.dropped++
		return
	}
	a.pending = append(a.pending, e)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// validEntry says whether an entry can be kept: one that cannot would hold up all that
// come after it.
func validEntry(e AuditEntry) bool {
	return slices.Contains(AuditKinds(), e.Kind) && slices.Contains(Results(), e.Result) && slices.Contains(Vias(), e.Via)
}

// Run records until ctx has ended, and makes a last attempt then.
func (a *AuditLog) Run(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	delay := minRetryDelay
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			a.flush(last)
			cancel()
			return
		case <-a.wake:
		case <-retry.C:
		}
		if a.flush(ctx) {
			delay = minRetryDelay
			continue
		}
		retry.Reset(delay)
		delay = min(2*delay, maxRetryDelay)
	}
}

// flush records what is pending, in order. It reports whether nothing is left.
func (a *AuditLog) flush(ctx context.Context) bool {
	for {
		e, ok := a.next()
		if !ok {
			return true
		}
		attempt, cancel := context.WithTimeout(ctx, recordTimeout)
		err := a.c.Store.AppendAudit(attempt, e)
		cancel()
		if err != nil {
			a.c.Metrics.countError("record_entry")
			a.c.Log.Error("an entry of the audit is not recorded; trying again", "action", e.Action, "ending", e.Result, "error", err)
			return false
		}
		a.mu.Lock()
		a.pending = slices.Delete(a.pending, 0, 1)
		a.mu.Unlock()
	}
}

// next returns the oldest entry that is pending.
func (a *AuditLog) next() (AuditEntry, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dropped > 0 {
		a.c.Log.Error("entries of the audit were dropped: too many were waiting", "count", a.dropped)
		a.dropped = 0
	}
	if len(a.pending) == 0 {
		return AuditEntry{}, false
	}
	return a.pending[0], true
}
