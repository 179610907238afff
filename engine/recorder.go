package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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

// maxUnsaved bounds the events that wait for the journal, and the incidents that
// are over.
const maxUnsaved = 10_000

// backlog is what waits for the journal: of everything that has a state of its
// own the latest, and all events in order. Whoever reads it in one piece sees the
// same as one who had read it step by step.
type backlog struct {
	states    []State
	incidents []Incident
	silences  []Silence
	events    []pendingEvent
}

type pendingEvent struct {
	Event
	reported bool // people were told of it already, or need not be
}

// add puts a batch behind what waits, and returns how many events did not fit.
func (l *backlog) add(b Batch) int {
	more := backlog{states: b.States, incidents: b.Incidents, silences: b.Silences}
	for _, e := range b.Events {
		more.events = append(more.events, pendingEvent{Event: e})
	}
	return l.merge(more)
}

func (l *backlog) merge(more backlog) int {
	l.states = mergeLatest(l.states, more.states, func(s State) Key { return s.Key })
	l.incidents = mergeLatest(l.incidents, more.incidents, func(i Incident) string { return i.ID })
	l.silences = mergeLatest(l.silences, more.silences, func(s Silence) string { return s.ID })
	l.events = append(l.events, more.events...)
	return l.trim()
}

// mergeLatest returns all, with those of more in the place of those that they follow.
func mergeLatest[T any, K comparable](all, more []T, key func(T) K) []T {
	all = slices.Clone(all)
	at := make(map[K]int, len(all)+len(more))
	for n, v := range all {
		at[key(v)] = n
	}
	for _, v := range more {
		n, ok := at[key(v)]
		if !ok {
			at[key(v)] = len(all)
			all = append(all, v)
			continue
		}
		all[n] = v
	}
	return all
}

// trim drops what does not fit: at first events that only tell how it went, then
// the oldest. A tenth is dropped at once, so that it is not done at every step.
func (l *backlog) trim() int {
	over := len(l.events) - maxUnsaved
	if over <= 0 {
		return 0
	}
	over += maxUnsaved / 10
	before := len(l.events)
	l.events = slices.DeleteFunc(slices.Clone(l.events), func(e pendingEvent) bool {
		if over == 0 || e.Kind.changesIncident() {
			return false
		}
		over--
		return true
	})
	l.events = l.events[over:]
	l.trimIncidents()
	return before - len(l.events)
}

// trimIncidents drops the oldest of too many incidents that are over.
func (l *backlog) trimIncidents() {
	over := len(l.incidents) - maxUnsaved
	l.incidents = slices.DeleteFunc(l.incidents, func(i Incident) bool {
		if over <= 0 || i.Open() {
			return false
		}
		over--
		return true
	})
	kept := make(map[string]bool, len(l.incidents))
	for _, i := range l.incidents {
		kept[i.ID] = true
	}
	l.events = slices.DeleteFunc(l.events, func(e pendingEvent) bool { return !kept[e.Incident] })
}

// changesIncident says whether an incident is not the same after such an event.
func (k EventKind) changesIncident() bool {
	switch k {
	case EventOpened, EventEscalated, EventReopened, EventResolved:
		return true
	default:
		return false
	}
}

func (l *backlog) batch() Batch {
	b := Batch{States: l.states, Incidents: l.incidents, Silences: l.silences}
	for _, e := range l.events {
		b.Events = append(b.Events, e.Event)
	}
	return b
}

// takeUnreportedPages returns the pages that wait and were not handed over before: events
// that are to be sent, of incidents that are or were a page. That signals are
// missing counts as one: a full disk takes the samples too, and with them the
// signals of every rule that could page.
func (l *backlog) takeUnreportedPages() Batch {
	var b Batch
	pages := make(map[string]Incident)
	for _, i := range l.incidents {
		if i.Peak == LevelPage || i.Key.Rule == SignalMissing {
			pages[i.ID] = i
		}
	}
	told := make(map[string]bool)
	for n := range l.events {
		e := &l.events[n]
		inc, isPage := pages[e.Incident]
		if isPage && !e.reported && !e.Muted {
			b.Events = append(b.Events, e.Event)
			told[inc.ID] = true
		}
		e.reported = true
	}
	for _, i := range l.incidents {
		if told[i.ID] {
			b.Incidents = append(b.Incidents, i)
		}
	}
	return b
}
