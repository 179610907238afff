package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"headgate/runbooks/drill"
	"headgate/runbooks/drill/judge"
)

// activeRun is a run in progress.
type activeRun struct {
	o         Options
	id        string
	ctx       context.Context // ends, with its cause, when the run is to stop
	stop      context.CancelCauseFunc
	done      chan struct{} // closed when the run has ended
	cleanedUp chan struct{} // closed when nothing is injected any more
	dirty     chan struct{} // there is something to record

	// Owned by the run's own goroutine.
	env drill.Environment

	mu           sync.Mutex
	record       drill.Run
	undoStack    []undoAction // of steps, in the order they were taken
	facts        judge.Facts
	observed     bool      // there is evidence
	lastFresh    time.Time // when evidence was fresh last
	lastSaved    time.Time // when the record was written last
	faults       []*injectedFault
	renewAllowed bool
}

// undoAction takes a step back.
type undoAction struct {
	stepIndex int // index of Facts.Steps
	name      string
	do        func(context.Context) error
}

// injectedFault is a fault in force.
type injectedFault struct {
	injection   drill.Injection
	target      drill.FaultTarget
	lease       drill.Lease
	expirations int
}

func newActiveRun(o Options, run drill.Run) *activeRun {
	a := &activeRun{o: o, id: run.ID, record: run, done: make(chan struct{}), cleanedUp: make(chan struct{}), dirty: make(chan struct{}, 1), renewAllowed: true}
	a.ctx, a.stop = context.WithCancelCause(context.Background())
	a.lastSaved = time.Now()
	return a
}

// snapshot is how far the run has come.
func (a *activeRun) snapshot() drill.Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.record
	r.Phases, r.Hypotheses, r.UndoResults = slices.Clone(r.Phases), slices.Clone(r.Hypotheses), slices.Clone(r.UndoResults)
	r.Messages, r.Series = slices.Clone(r.Messages), slices.Clone(r.Series)
	return r
}

// await returns the run once a channel is closed, or as it stands when ctx ends.
func (a *activeRun) await(ctx context.Context, until <-chan struct{}) (drill.Run, error) {
	select {
	case <-until:
		return a.snapshot(), nil
	case <-ctx.Done():
		return a.snapshot(), ctx.Err()
	}
}

// update changes the run.
func (a *activeRun) update(f func(r *drill.Run)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.record)
}

// enterPhase begins a phase and ends the one before, with a note on what came of it.
func (a *activeRun) enterPhase(name drill.PhaseName, note string) {
	now, id := wallNow(), ""
	a.update(func(r *drill.Run) {
		id = r.Drill
		if n := len(r.Phases); n > 0 && r.Phases[n-1].Ended.IsZero() {
			r.Phases[n-1].Ended = now
			if note != "" {
				r.Phases[n-1].Note = note
			}
		}
		r.Phases = append(r.Phases, drill.Phase{Name: name, Started: now})
		r.Status = drill.Running
	})
	a.o.Log.Info("drill phase", "drill", id, "run", a.id, "phase", string(name))
	select {
	case a.dirty <- struct{}{}:
	default:
	}
}

// save writes how far the run has come. A lock that is lost stops the run.
func (a *activeRun) save(ctx context.Context) {
	switch err := a.store(ctx); {
	case err == nil:
		a.mu.Lock()
		a.lastSaved = time.Now()
		a.mu.Unlock()
	case ctx.Err() != nil:
	case errors.Is(err, drill.ErrLockLost):
		a.stop(&stopCause{reason: "another run holds the lock of drills"})
	default:
		a.o.Log.Warn("drill progress not saved", "run", a.id, "err", err)
	}
}

func (a *activeRun) store(ctx context.Context) error {
	return doWithTimeout(ctx, callTimeout, func(ctx context.Context) error { return a.o.Store.Save(ctx, wallNow(), a.snapshot()) })
}

// sinceSaved is how long ago the record was written.
func (a *activeRun) sinceSaved() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.lastSaved)
}

// recordUndo records that something was taken back.
func (a *activeRun) recordUndo(what string, began time.Time, err error, note string) {
	u := drill.UndoResult{What: what, At: wallNow(), Took: time.Since(began), OK: err == nil, Note: note}
	if err != nil {
		u.Note = err.Error()
	}
	a.update(func(r *drill.Run) { r.UndoResults = append(r.UndoResults, u) })
}

// finish writes the verdict. It tries for a while; a row that cannot be closed now is
// closed at the next start.
func (a *activeRun) finish(v drill.Verdict, reason string) {
	now := wallNow()
	a.update(func(r *drill.Run) {
		if n := len(r.Phases); n > 0 && r.Phases[n-1].Ended.IsZero() {
			r.Phases[n-1].Ended = now
		}
		r.Status, r.Verdict, r.Reason, r.Ended = drill.Ended, v, reason, now
	})
	wait := 100 * time.Millisecond
	for try := 1; ; try++ {
		err := a.store(context.Background())
		if err == nil {
			return
		}
		if try == saveAttempts || errors.Is(err, drill.ErrLockLost) {
			a.o.Log.Error("drill verdict not saved", "run", a.id, "verdict", string(v), "err", err)
			return
		}
		time.Sleep(wait)
		wait *= 2
	}
}
