package drill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// active is a run that goes on.
type active struct {
	o     Options
	id    string
	ctx   context.Context // ends, with its cause, when the run is to stop
	stop  context.CancelCauseFunc
	over  chan struct{} // closed when the run has ended
	down  chan struct{} // closed when nothing is injected any more
	dirty chan struct{} // there is something to record

	// Owned by the run's own goroutine.
	stage Stage

	mu       sync.Mutex
	run      Run
	undos    []undo // of steps, in the order they were taken
	facts    Facts
	sighted  bool      // there is evidence
	seen     time.Time // when evidence was fresh last
	saved    time.Time // when the record was written last
	leases   []*held
	mayRenew bool
}

// undo takes a step back.
type undo struct {
	taken int // index of Facts.Taken
	what  string
	do    func(context.Context) error
}

// held is a fault in force.
type held struct {
	injection Injection
	way       Way
	lease     Lease
	lapses    int
}

func newActive(o Options, run Run) *active {
	a := &active{o: o, id: run.ID, run: run, over: make(chan struct{}), down: make(chan struct{}), dirty: make(chan struct{}, 1), mayRenew: true}
	a.ctx, a.stop = context.WithCancelCause(context.Background())
	a.saved = time.Now()
	return a
}

// snapshot is how far the run has come.
func (a *active) snapshot() Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.run
	r.Phases, r.Hypotheses, r.Undo = slices.Clone(r.Phases), slices.Clone(r.Hypotheses), slices.Clone(r.Undo)
	r.Messages, r.Series = slices.Clone(r.Messages), slices.Clone(r.Series)
	return r
}

// change changes the run.
func (a *active) change(f func(r *Run)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.run)
}

// phase begins a phase and ends the one before, with a note on what came of it.
func (a *active) phase(name PhaseName, note string) {
	now, drill := wallNow(), ""
	a.change(func(r *Run) {
		drill = r.Drill
		if n := len(r.Phases); n > 0 && r.Phases[n-1].Ended.IsZero() {
			r.Phases[n-1].Ended = now
			if note != "" {
				r.Phases[n-1].Note = note
			}
		}
		r.Phases = append(r.Phases, Phase{Name: name, Began: now})
		r.Status = Running
	})
	a.o.Log.Info("drill", "drill", drill, "run", a.id, "phase", string(name))
	select {
	case a.dirty <- struct{}{}:
	default:
	}
}

// save writes how far the run has come. A lock that is lost stops the run.
func (a *active) save(ctx context.Context) {
	err := boundedly(ctx, callLimit, func(ctx context.Context) error {
		return a.o.Store.Save(ctx, wallNow(), a.snapshot())
	})
	switch {
	case err == nil:
		a.mu.Lock()
		a.saved = time.Now()
		a.mu.Unlock()
	case ctx.Err() != nil:
	case errors.Is(err, ErrFenced):
		a.stop(&stopped{why: "the lock of drills has gone to another run"})
	default:
		a.o.Log.Warn("a drill's progress could not be recorded", "run", a.id, "err", err)
	}
}

// savedFor is how long ago the record was written.
func (a *active) savedFor() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.saved)
}

// undone records that something was taken back.
func (a *active) undone(what string, began time.Time, err error, note string) {
	u := Undone{What: what, At: wallNow(), Took: time.Since(began), OK: err == nil, Note: note}
	if err != nil {
		u.Note = err.Error()
	}
	a.change(func(r *Run) { r.Undo = append(r.Undo, u) })
}

// end writes the verdict. It tries for a while; a row that cannot be closed now is
// closed at the next start.
func (a *active) end(v Verdict, reason string) {
	now := wallNow()
	a.change(func(r *Run) {
		if n := len(r.Phases); n > 0 && r.Phases[n-1].Ended.IsZero() {
			r.Phases[n-1].Ended = now
		}
		r.Status, r.Verdict, r.Reason, r.Ended = Ended, v, reason, now
	})
	wait := 100 * time.Millisecond
	for try := 1; ; try++ {
		err := boundedly(context.Background(), callLimit, func(ctx context.Context) error {
			return a.o.Store.Save(ctx, wallNow(), a.snapshot())
		})
		if err == nil {
			return
		}
		if try == endingTries || errors.Is(err, ErrFenced) {
			a.o.Log.Error("a drill's verdict could not be recorded", "run", a.id, "verdict", string(v), "err", err)
			return
		}
		time.Sleep(wait)
		wait *= 2
	}
}
