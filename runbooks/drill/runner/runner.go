package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// Times of a runner, on the wall clock.
const (
	// LeaseTTL is how long a fault lasts unless it is renewed.
	LeaseTTL      = time.Second
	renewInterval = LeaseTTL / 5
	// StoreLease is how long the lock lasts without Save.
	StoreLease   = 15 * time.Second
	saveInterval = 3 * time.Second
	maxUnsaved   = 10 * time.Second // without a successful Save, after which a run stops

	productionInterval = 200 * time.Millisecond // between checks of production
	observeInterval    = time.Second
	maxBlind           = 8 * time.Second // without fresh evidence, after which a run stops

	openTimeout  = 30 * time.Second
	callTimeout  = 5 * time.Second
	closeTimeout = 10 * time.Second
	saveAttempts = 5
)

// Errors of a runner.
var (
	ErrNotRunning = errors.New("the run has ended already")
	ErrClosed     = errors.New("drills cannot start: headgate is shutting down")
)

// Options are what a runner needs.
type Options struct {
	Store        drill.Store
	Environments drill.EnvironmentFactory
	Production   drill.Production
	Version      string // of headgate
	Log          *slog.Logger
	// OnEnded is called for every run that has ended, once, from the run's own goroutine. It may be nil.
	OnEnded func(drill.Run)
}

// Request asks for a run.
type Request struct {
	Spec      drill.Spec
	Trigger   drill.Trigger
	Actor     string
	Reason    string    // in the words of the actor; may be empty
	Speed     float64   // 0: that of the spec
	Scheduled time.Time // the occurrence; zero by hand
}

// Runner runs drills, one at a time. Its methods may be called from any goroutine.
type Runner struct {
	o Options

	mu        sync.Mutex
	current   *activeRun
	lastEnded *activeRun
	closed    bool
	runs      sync.WaitGroup
}

// New returns a runner.
func New(o Options) (*Runner, error) {
	switch {
	case o.Store == nil || o.Environments == nil || o.Production == nil:
		return nil, errors.New("a runner of drills needs a store, environments and production")
	case o.Log == nil:
		return nil, errors.New("a runner of drills needs a log")
	}
	return &Runner{o: o}, nil
}

// Start claims a run and begins it; it returns once the claim is written. It fails with ErrClaimed, ErrFrozen,
// ErrClosed, a *BusyError that names the run in progress, or a *RefusedError.
func (r *Runner) Start(ctx context.Context, q Request) (drill.Run, error) {
	run, err := r.newRun(q)
	if err != nil {
		return drill.Run{}, err
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return drill.Run{}, ErrClosed
	}
	r.runs.Add(1)
	r.mu.Unlock()
	if run.Fence, err = r.o.Store.Claim(ctx, run.Started, run, StoreLease); err != nil {
		r.runs.Done()
		return drill.Run{}, fmt.Errorf("claim the run: %w", err)
	}
	a := newActiveRun(r.o, run)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current = a; r.closed {
		a.stop(shutdown)
	}
	go r.run(a)
	return a.snapshot(), nil
}

// run carries a run to its end.
func (r *Runner) run(a *activeRun) {
	defer r.runs.Done()
	a.run()
	r.mu.Lock()
	r.lastEnded = a
	if r.current == a { // the next may have begun already
		r.current = nil
	}
	r.mu.Unlock()
	close(a.done)
}

// newRun returns the requested run.
func (r *Runner) newRun(q Request) (drill.Run, error) {
	speed := q.Speed
	if speed == 0 {
		speed = max(q.Spec.Speed, 1)
	}
	if err := q.Spec.CheckSpeed(speed); err != nil {
		return drill.Run{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return drill.Run{}, fmt.Errorf("name the run: %w", err)
	}
	now := wallNow()
	return drill.Run{
		ID: id.String(), Drill: q.Spec.ID, Name: q.Spec.Name, Spec: q.Spec, Version: r.o.Version,
		Trigger: q.Trigger, Actor: q.Actor, Speed: speed, Scheduled: q.Scheduled.UTC(), Started: now, Status: drill.Claimed,
		Phases: []drill.Phase{{Name: drill.PhaseClaim, Started: now, Note: q.Reason}},
	}, nil
}

// wallNow is the time of day as records have it.
func wallNow() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// active returns the run in progress; nil if there is none.
func (r *Runner) active() *activeRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Current returns the state of the run in progress, and false if there is none.
func (r *Runner) Current() (drill.Run, bool) {
	a := r.active()
	if a == nil {
		return drill.Run{}, false
	}
	return a.snapshot(), true
}

// Abort stops a run: its faults are cleared within ClearLimit and its steps reverted. It returns the run once that is
// done, or when ctx ends; the verdict may be written later. ErrNotRunning: no such run is in progress here.
func (r *Runner) Abort(ctx context.Context, id, actor, reason string) (drill.Run, error) {
	a := r.active()
	if a == nil || a.claimed.ID != id {
		return drill.Run{}, ErrNotRunning
	}
	a.stop(stopBy("aborted", actor, reason))
	return a.await(ctx, a.cleanedUp)
}

// Wait returns a run when it has ended, or as it is when ctx ends. Runs before the last one are read from the store.
func (r *Runner) Wait(ctx context.Context, id string) (drill.Run, error) {
	r.mu.Lock()
	a := r.current
	if a == nil || a.claimed.ID != id {
		a = r.lastEnded
	}
	r.mu.Unlock()
	if a != nil && a.claimed.ID == id {
		return a.await(ctx, a.done)
	}
	return r.o.Store.Run(ctx, id)
}

// SetFreeze freezes drills and stops the one in progress, or with f.On false allows drills again.
func (r *Runner) SetFreeze(ctx context.Context, f drill.Freeze) error {
	f.Since = wallNow()
	if err := r.o.Store.SetFreeze(ctx, f); err != nil {
		return fmt.Errorf("record the freeze of drills: %w", err)
	}
	if a := r.active(); a != nil && f.On {
		a.stop(frozenBy(f))
	}
	return nil
}

// Close stops the run in progress, refuses new ones, and waits until the run has ended or ctx ends.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if a := r.active(); a != nil {
		a.stop(shutdown)
	}
	done := make(chan struct{})
	go func() { r.runs.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the drill to end: %w", ctx.Err())
	}
}

// outcome ends a run with a verdict before it can be judged.
type outcome struct {
	verdict drill.Verdict
	reason  string
}

// Error is the reason.
func (e *outcome) Error() string { return e.reason }

func endWith(v drill.Verdict, format string, args ...any) error {
	return &outcome{v, fmt.Sprintf(format, args...)}
}

var shutdown = endWith(drill.Aborted, "headgate is shutting down")

func frozenBy(f drill.Freeze) error { return stopBy("drills were frozen", f.Actor, f.Reason) }

// maxReason bounds the quoted reason of an actor.
const maxReason = 120

// stopBy stops a run for a person.
func stopBy(what, actor, reason string) error {
	what += " by " + cmp.Or(actor, "an unknown actor")
	if reason != "" {
		what += ": " + format.Truncate(format.FirstLine(reason), maxReason)
	}
	return endWith(drill.Aborted, "%s", what)
}
