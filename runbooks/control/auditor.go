package control

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// maxNotes bounds the entries that wait to be recorded.
const maxNotes = 10_000

// AuditorConfig is what an Auditor is made of. All of it must be there.
type AuditorConfig struct {
	Audit   Audit
	Writer  string // names this process in the record
	Log     *slog.Logger
	Metrics *Metrics
}

// Auditor records entries beside those who act: nobody waits for a disk, and
// what cannot be recorded is kept in order and tried again. What has not been
// recorded when the process ends is lost. Its methods may be called from any
// goroutine.
type Auditor struct {
	c    AuditorConfig
	wake chan struct{} // holds one: there is something to record

	mu      sync.Mutex
	pending []Entry
	dropped int // that did not fit
}

// NewAuditor returns an Auditor that records once Run is called.
func NewAuditor(c AuditorConfig) *Auditor { return &Auditor{c: c, wake: make(chan struct{}, 1)} }

// Note takes an entry, and does not wait. An ID, the writer and a time that are
// missing are filled in. When too many wait already, it is dropped, counted and
// logged: whoever notes what others attempt must bound how often.
func (a *Auditor) Note(e Entry) {
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
	if !sound(e) {
		a.c.Log.Error("an entry of the audit makes no sense", "kind", e.Kind, "ending", e.Ending, "via", e.Via)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) >= maxNotes {
		a.dropped++
		return
	}
	a.pending = append(a.pending, e)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// sound says whether an entry can be kept: one that cannot would hold up all that
// come after it.
func sound(e Entry) bool {
	return slices.Contains(Kinds(), e.Kind) && slices.Contains(Endings(), e.Ending) && slices.Contains(Vias(), e.Via)
}

// Run records until ctx has ended, and makes a last attempt then.
func (a *Auditor) Run(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	delay := firstRetry
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
			delay = firstRetry
			continue
		}
		retry.Reset(delay)
		delay = min(2*delay, lastRetry)
	}
}

// flush records what is pending, in order. It reports whether nothing is left.
func (a *Auditor) flush(ctx context.Context) bool {
	for {
		e, ok := a.next()
		if !ok {
			return true
		}
		attempt, cancel := context.WithTimeout(ctx, recordTimeout)
		err := a.c.Audit.Note(attempt, e)
		cancel()
		if err != nil {
			a.c.Metrics.failed("record_entry")
			a.c.Log.Error("an entry of the audit is not recorded; trying again", "action", e.Action, "ending", e.Ending, "error", err)
			return false
		}
		a.mu.Lock()
		a.pending = slices.Delete(a.pending, 0, 1)
		a.mu.Unlock()
	}
}

// next returns the oldest entry that is pending.
func (a *Auditor) next() (Entry, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dropped > 0 {
		a.c.Log.Error("entries of the audit were dropped: too many were waiting", "count", a.dropped)
		a.dropped = 0
	}
	if len(a.pending) == 0 {
		return Entry{}, false
	}
	return a.pending[0], true
}
