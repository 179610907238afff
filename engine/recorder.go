package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// recorder saves batches in order, in a goroutine of its own, and keeps what
// could not be saved.
type recorder struct {
	journal   Journal
	timeout   time.Duration
	log       *slog.Logger
	metrics   *Metrics
	onSaved   func(Batch)
	onUnsaved func(Batch)
	wake      chan struct{} // holds one: there is something to save

	mu      sync.Mutex
	pending backlog
}

func newRecorder(o Options) *recorder {
	ignore := func(Batch) {}
	r := &recorder{
		journal: o.Journal, timeout: o.Config.SaveTimeout, log: o.Log, metrics: o.Metrics,
		onSaved: o.OnSaved, onUnsaved: o.OnUnsaved, wake: make(chan struct{}, 1),
	}
	if r.onSaved == nil {
		r.onSaved = ignore
	}
	if r.onUnsaved == nil {
		r.onUnsaved = ignore
	}
	return r
}

// add puts a batch behind those that wait.
func (r *recorder) add(b Batch) {
	r.mu.Lock()
	r.countLocked(r.pending.add(b))
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (r *recorder) countLocked(dropped int) {
	r.metrics.unsaved.Store(int64(len(r.pending.events)))
	if dropped > 0 {
		r.metrics.dropped.Add(float64(dropped))
		r.log.Error("events of incidents are lost: too many wait for the journal", "lost", dropped)
	}
}

// run saves what comes until ctx is done. An attempt that is under way ends first.
func (r *recorder) run(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	delay, failing := firstRetry, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			if failing { // people hear of pages now, the journal's turn comes later
				r.reportUnsavedPages()
				continue
			}
		case <-retry.C:
		}
		err := r.save(context.WithoutCancel(ctx))
		if failing != (err != nil) {
			failing = err != nil
			r.logTransition(err)
		}
		if !failing {
			delay = firstRetry
			continue
		}
		retry.Reset(delay)
		delay = min(2*delay, lastRetry)
	}
}

func (r *recorder) logTransition(err error) {
	if err != nil {
		r.log.Error("incidents cannot be recorded; they are kept in memory and tried again", "error", err)
		return
	}
	r.log.Info("incidents are recorded again")
}

// save tries once to save all that waits.
func (r *recorder) save(ctx context.Context) error {
	r.mu.Lock()
	mine := r.pending
	r.pending = backlog{}
	r.mu.Unlock()
	b := mine.batch()
	if b.Empty() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.journal.Save(ctx, b); err != nil {
		r.metrics.countJournalError(opSave)
		r.requeue(mine)
		r.reportUnsavedPages()
		return err
	}
	r.mu.Lock()
	r.countLocked(0)
	r.mu.Unlock()
	r.onSaved(b)
	return nil
}

// requeue puts what could not be saved before what has come since.
func (r *recorder) requeue(mine backlog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dropped := mine.merge(r.pending)
	r.pending = mine
	r.countLocked(dropped)
}

// takeUnreportedPages tells of pages that wait, each once.
func (r *recorder) reportUnsavedPages() {
	r.mu.Lock()
	b := r.pending.takeUnreportedPages()
	r.mu.Unlock()
	if !b.Empty() {
		r.onUnsaved(b)
	}
}

// flush tries to save what is left, once, after run has ended.
func (r *recorder) flush(ctx context.Context) error {
	if err := r.save(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsaved, err)
	}
	return nil
}
