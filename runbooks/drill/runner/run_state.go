package runner

import (
	"cmp"
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
	claimed   drill.Run       // as it was when it began
	ctx       context.Context // ends, with its cause, when the run is to stop
	stop      context.CancelCauseFunc
	done      chan struct{} // closed when the run has ended
	cleanedUp chan struct{} // closed when no fault is in force any more
	dirty     chan struct{} // a phase has begun that is not saved

	env drill.Environment // owned by the run's own goroutine

	mu           sync.Mutex
	record       drill.Run
	revertStack  []revertAction // of steps, in the order they were run
	facts        judge.Facts
	observed     bool      // there is evidence
	lastFresh    time.Time // when evidence was last fresh
	lastSaved    time.Time // when the run was last saved
	faults       []*injectedFault
	renewAllowed bool
}

// revertAction reverts a step.
type revertAction struct {
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
	a := &activeRun{
		o: o, claimed: run, record: run, lastSaved: time.Now(), renewAllowed: true,
		done: make(chan struct{}), cleanedUp: make(chan struct{}), dirty: make(chan struct{}, 1),
	}
	a.ctx, a.stop = context.WithCancelCause(context.Background())
	return a
}

func (a *activeRun) spec() *drill.Spec { return &a.claimed.Spec }

// snapshot returns a copy of the run as it is now.
func (a *activeRun) snapshot() drill.Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.record
	r.Phases, r.Hypotheses = slices.Clone(r.Phases), slices.Clone(r.Hypotheses)
	r.Reverts, r.Messages, r.Series = slices.Clone(r.Reverts), slices.Clone(r.Messages), slices.Clone(r.Series)
	return r
}

// await returns the run once a channel is closed, or as it is when ctx ends.
func (a *activeRun) await(ctx context.Context, until <-chan struct{}) (drill.Run, error) {
	select {
	case <-until:
		return a.snapshot(), nil
	case <-ctx.Done():
		return a.snapshot(), ctx.Err()
	}
}

// update changes the run, or what is known of it.
func (a *activeRun) update(f func(r *drill.Run)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.record)
}

// enterPhase begins a phase and ends the one before, with a note on its result.
func (a *activeRun) enterPhase(name drill.PhaseName, note string) {
	now := wallNow()
	a.update(func(r *drill.Run) {
		endPhase(r, now, note)
		r.Phases = append(r.Phases, drill.Phase{Name: name, Started: now})
		r.Status = drill.Running
	})
	a.o.Log.Info("drill phase", "drill", a.claimed.Drill, "run", a.claimed.ID, "phase", string(name))
	select {
	case a.dirty <- struct{}{}:
	default:
	}
}

// endPhase ends the phase in progress. An empty note changes nothing.
func endPhase(r *drill.Run, now time.Time, note string) {
	p := &r.Phases[len(r.Phases)-1] // there is one from the claim on
	p.Ended, p.Note = now, cmp.Or(note, p.Note)
}

// save saves the run. A lost lock stops the run.
func (a *activeRun) save(ctx context.Context) {
	switch err := a.store(ctx); {
	case err == nil:
		a.update(func(*drill.Run) { a.lastSaved = time.Now() })
	case ctx.Err() != nil:
	case errors.Is(err, drill.ErrLockLost):
		a.stop(endWith(drill.Aborted, "another run holds the lock of drills"))
	default:
		a.o.Log.Warn("drill progress not saved", "run", a.claimed.ID, "err", err)
	}
}

func (a *activeRun) store(ctx context.Context) error {
	return doWithTimeout(ctx, callTimeout, func(ctx context.Context) error {
		return a.o.Store.Save(ctx, wallNow(), a.snapshot())
	})
}

// recordUndo records that a step was reverted or a fault cleared.
func (a *activeRun) recordUndo(what string, began time.Time, err error, note string) {
	u := drill.RevertResult{What: what, At: wallNow(), Took: time.Since(began), OK: err == nil, Note: note}
	if err != nil {
		u.Note = err.Error()
	}
	a.update(func(r *drill.Run) { r.Reverts = append(r.Reverts, u) })
}

// finish saves the verdict. It tries for a while; a run that cannot be saved now is closed at the next start.
func (a *activeRun) finish(v drill.Verdict, reason string) {
	now := wallNow()
	a.update(func(r *drill.Run) {
		endPhase(r, now, "")
		r.Status, r.Verdict, r.Reason, r.Ended = drill.Ended, v, reason, now
	})
	wait := 100 * time.Millisecond
	for try := 1; ; try++ {
		err := a.store(context.Background())
		if err == nil {
			return
		}
		if try == saveAttempts || errors.Is(err, drill.ErrLockLost) {
			a.o.Log.Error("drill verdict not saved", "run", a.claimed.ID, "verdict", string(v), "err", err)
			return
		}
		time.Sleep(wait)
		wait *= 2
	}
}
