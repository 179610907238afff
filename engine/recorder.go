package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"headgate/internal/writebehind"
)

// maxUnsaved bounds the events that wait for the journal, and the resolved incidents.
const maxUnsaved = 10_000

// recorder saves batches in order, in its own goroutine, and keeps what could not be saved. It merges waiting
// batches: the latest state of each rule, incident and silence, and all events in order. The journal reaches the same
// state as if it had received the batches one by one.
type recorder struct {
	queue     *writebehind.Queue[Batch]
	journal   Journal
	log       *slog.Logger
	metrics   *Metrics
	onUnsaved func(Batch)

	// Of the goroutine that writes.
	lastErr  error          // of the latest attempt
	reported map[string]int // by incident, Seq of the latest event that reportPages has seen
}

func newRecorder(o Options) *recorder {
	r := &recorder{journal: o.Journal, log: o.Log, metrics: o.Metrics, onUnsaved: o.OnUnsaved,
		reported: map[string]int{}}
	r.queue = writebehind.New(writebehind.Config[Batch]{
		Batch: writebehind.Batch[Batch]{Merge: mergeBatches, Len: Batch.size}, Write: r.write,
		OnWritten: func(b Batch) {
			r.observe()
			if o.OnSaved != nil {
				o.OnSaved(b)
			}
		},
		OnDropped: func(n int) {
			r.metrics.dropped.Add(float64(n))
			r.log.Error("incident events dropped: too many wait for the journal", "dropped", n)
		},
		OnDelayed:    r.reportPages, // pages do not wait for the next attempt
		Timeout:      o.Config.SaveTimeout,
		FlushTimeout: o.Config.SaveTimeout,
	})
	return r
}

func (r *recorder) add(b Batch) {
	r.queue.Add(b)
	r.observe()
}

// observe updates the gauge of events that wait.
func (r *recorder) observe() {
	events := 0
	r.queue.Pending(func(b Batch) bool {
		events += len(b.Events)
		return false
	})
	r.metrics.unsaved.Store(int64(events))
}

// write saves a batch. An attempt that has begun is not cut short by a stop: it would count as failed.
func (r *recorder) write(ctx context.Context, b Batch) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
	}
	err := r.journal.Save(ctx, b)
	switch {
	case err != nil && r.lastErr == nil:
		r.log.Error("incidents cannot be recorded; they are kept in memory and saved later", "error", err)
	case err == nil && r.lastErr != nil:
		r.log.Info("incidents are recorded again")
		clear(r.reported)
	}
	r.lastErr = err
	if err != nil {
		r.metrics.countJournalError(opSave)
		r.reportPages(b)
	}
	return err
}

// reportPages calls onUnsaved for the pages of a batch that could not be saved, for each event once: events that are to
// be sent, of incidents that are or were a page. Missing signals count as a page: a full disk takes the samples too,
// and with them the signals of every rule that could page.
func (r *recorder) reportPages(b Batch) {
	var pages Batch
	for _, inc := range b.Incidents {
		last := r.reported[inc.ID]
		r.reported[inc.ID] = max(last, inc.Seq) // also of a warning: when it becomes a page, its opening is old
		if inc.Peak != LevelPage && inc.Rule != SignalMissing {
			continue
		}
		before := len(pages.Events)
		for _, e := range b.Events {
			if e.Incident == inc.ID && e.Seq > last && !e.Muted {
				pages.Events = append(pages.Events, e)
			}
		}
		if len(pages.Events) > before {
			pages.Incidents = append(pages.Incidents, inc)
		}
	}
	if !pages.Empty() && r.onUnsaved != nil {
		r.onUnsaved(pages)
	}
}

// finish says, after the queue's last attempt, whether everything was saved.
func (r *recorder) finish() error {
	if r.queue.Len() == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnsaved, r.lastErr)
}

// size is the number of items in a batch.
func (b Batch) size() int { return len(b.States) + len(b.Incidents) + len(b.Events) + len(b.Silences) }

// mergeBatches puts a batch behind what waits, and returns how many events did not fit.
func mergeBatches(waiting, more Batch) (merged Batch, dropped int) {
	merged = Batch{
		States:    writebehind.MergeLatest(waiting.States, more.States, func(s State) Key { return s.Key }),
		Incidents: writebehind.MergeLatest(waiting.Incidents, more.Incidents, func(i Incident) string { return i.ID }),
		Silences:  writebehind.MergeLatest(waiting.Silences, more.Silences, func(s Silence) string { return s.ID }),
		Events:    append(waiting.Events, more.Events...), // the queue gives waiting away
	}
	before := len(merged.Events)
	merged.trim()
	return merged, before - len(merged.Events)
}

// trim drops what does not fit: events that change no incident first, then the oldest; and the oldest of too many
// resolved incidents with their events. A tenth is dropped at once, so that it does not happen at every step.
func (b *Batch) trim() {
	over := len(b.Events) - maxUnsaved
	if over <= 0 {
		return
	}
	over += maxUnsaved / 10
	b.Events = slices.DeleteFunc(slices.Clone(b.Events), func(e Event) bool { // OnDelayed may be reading them
		if over == 0 || e.Kind.changesIncident() {
			return false
		}
		over--
		return true
	})
	b.Events = b.Events[over:]
	over = len(b.Incidents) - maxUnsaved
	b.Incidents = slices.DeleteFunc(b.Incidents, func(i Incident) bool {
		if over <= 0 || i.Open() {
			return false
		}
		over--
		return true
	})
	kept := make(map[string]bool, len(b.Incidents))
	for _, i := range b.Incidents {
		kept[i.ID] = true
	}
	b.Events = slices.DeleteFunc(b.Events, func(e Event) bool { return !kept[e.Incident] })
}

// changesIncident says whether an incident has another level or end after such an event.
func (k EventKind) changesIncident() bool {
	return slices.Contains([]EventKind{EventOpened, EventEscalated, EventReopened, EventResolved}, k)
}
