package drill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

const (
	// lookEvery bounds how long the loop sleeps: a wall clock that was put forward,
	// or a machine that slept, is noticed within that time.
	lookEvery = 30 * time.Second
	noteTime  = 10 * time.Second // for the record to take what has become of a due time
	// jump is how far the wall clock may move against the time that passes without
	// being told of.
	jump = 5 * time.Second
)

// Launcher begins runs.
type Launcher interface {
	// Launch claims the run and begins it, and returns while it goes on. ErrClaimed:
	// this occurrence has had its run. A *BusyError and ErrFrozen say why not.
	Launch(ctx context.Context, s Spec, t Trigger, scheduled time.Time) error
}

// Noter keeps runs that never began. A Store does.
type Noter interface {
	Note(ctx context.Context, r Run) error
}

// SchedulerOptions are what a Scheduler needs; all of it must be set.
type SchedulerOptions struct {
	Specs    func() []Spec // as they are now
	Dues     Dues
	Noter    Noter
	Launcher Launcher
	NewID    func() string // UUIDv7
	Version  string        // of headgate
	Log      *slog.Logger
}

// Scheduler begins drills when they are due. Due times are kept in the record, so
// that a restart neither loses one nor puts it off. One that finds another drill
// running waits for its turn as long as its CatchUp allows, at least a minute.
type Scheduler struct {
	o    SchedulerOptions
	kick chan struct{}
	held map[string]string // why a drill that is due waits, by ID
	last time.Time
}

// NewScheduler returns a Scheduler that does nothing until Run.
func NewScheduler(o SchedulerOptions) *Scheduler {
	return &Scheduler{o: o, kick: make(chan struct{}, 1), held: make(map[string]string)}
}

// Kick makes the loop look at once: the drills have changed, or one has ended.
func (s *Scheduler) Kick() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Run looks for what is due until ctx ends. It is called once.
func (s *Scheduler) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-timer.C:
		}
		timer.Reset(s.turn(ctx))
	}
}

// turn does what is due, and says when to look again. A panic is logged, and the
// next turn tries again.
func (s *Scheduler) turn(ctx context.Context) (wait time.Duration) {
	wait = lookEvery
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("looking for drills that are due panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	now := time.Now()
	s.noticeJump(now)
	// The record has the wall clock, which may have moved against the monotonic one.
	looking, cancel := context.WithTimeout(ctx, lookEvery) // a record that hangs must not be waited for
	defer cancel()
	next, err := s.look(looking, now.Round(0))
	if err != nil && ctx.Err() == nil {
		s.o.Log.Error("drills that are due were not begun, trying again", "error", err)
	}
	if next.IsZero() {
		return wait
	}
	return min(wait, max(time.Until(next), time.Millisecond))
}

func (s *Scheduler) noticeJump(now time.Time) {
	if !s.last.IsZero() {
		if off := now.Round(0).Sub(s.last.Round(0)) - now.Sub(s.last); off.Abs() > jump {
			s.o.Log.Warn("the wall clock has moved: drills go by where it is now", "by", off)
		}
	}
	s.last = now
}

// look carries a plan out, and returns the earliest time that is kept; zero if none
// is.
func (s *Scheduler) look(ctx context.Context, now time.Time) (next time.Time, err error) {
	dues, err := s.o.Dues.Dues(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when drills are due: %w", err)
	}
	for _, a := range Plan(now, s.o.Specs(), dues) {
		if ctx.Err() != nil {
			break
		}
		kept, actErr := s.act(ctx, now, a)
		if err = errors.Join(err, actErr); actErr == nil {
			dues[a.Spec.ID] = kept
		}
	}
	for _, d := range dues {
		if !d.Next.IsZero() && d.Next.After(now) && (next.IsZero() || d.Next.Before(next)) {
			next = d.Next
		}
	}
	return next, err
}

// act carries one action out, and returns what is kept then. What fails is done
// again at the next look: each step is one that can be repeated.
func (s *Scheduler) act(ctx context.Context, now time.Time, a Action) (Due, error) {
	id := a.Spec.ID
	if a.Drop {
		delete(s.held, id)
		return Due{}, s.o.Dues.DropDue(ctx, id)
	}
	if a.Missed.Count > 0 {
		if err := s.noteMissed(ctx, now, a); err != nil {
			return Due{}, err
		}
		if err := s.o.Dues.SetDue(ctx, a.rest()); err != nil { // they are not missed twice
			return Due{}, err
		}
	}
	if a.Run != "" {
		waits, err := s.launch(ctx, now, a)
		if err != nil || waits {
			return Due{}, err
		}
	}
	delete(s.held, id)
	return a.Due, s.o.Dues.SetDue(ctx, a.Due)
}

// launch begins a run. One that has to wait for another is left as it is, so that
// the next look finds it due.
func (s *Scheduler) launch(ctx context.Context, now time.Time, a Action) (waits bool, err error) {
	err = s.o.Launcher.Launch(ctx, a.Spec, a.Run, a.At.At)
	var busy *BusyError
	switch {
	case err == nil, errors.Is(err, ErrClaimed):
		return false, nil
	case errors.As(err, &busy):
		if s.held[a.Spec.ID] == "" {
			s.o.Log.Info("a drill waits for its turn", "drill", a.Spec.Name, "for", busy.Drill, "run", busy.Run)
		}
		s.held[a.Spec.ID] = busy.Error()
		return true, nil
	case errors.Is(err, ErrFrozen):
		return false, s.note(ctx, now, a, Run{Verdict: Skipped, Reason: ErrFrozen.Error(), Scheduled: a.At.At})
	default:
		return false, fmt.Errorf("begin drill %s: %w", a.Spec.Name, err)
	}
}

// noteMissed keeps one row, whatever the number. A drill that has waited for another
// was not missed: it says for whom.
func (s *Scheduler) noteMissed(ctx context.Context, now time.Time, a Action) error {
	r := Run{Verdict: Missed, Reason: a.Missed.reason(), Scheduled: a.Missed.Last, Count: a.Missed.Count}
	if why := s.held[a.Spec.ID]; why != "" {
		r.Verdict, r.Reason = Skipped, why
		if a.Missed.Count > 1 {
			r.Reason += fmt.Sprintf("; %d due times passed meanwhile", a.Missed.Count)
		}
	}
	return s.note(ctx, now, a, r)
}

// note keeps what has become of a due time. ErrClaimed: that is known already.
func (s *Scheduler) note(ctx context.Context, now time.Time, a Action, r Run) error {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	r.ID, r.Drill, r.Name, r.Spec, r.Version = s.o.NewID(), a.Spec.ID, a.Spec.Name, a.Spec, s.o.Version
	r.Trigger, r.Status, r.Ended = BySchedule, Ended, now.UTC().Truncate(time.Millisecond)
	err := s.o.Noter.Note(ctx, r)
	switch {
	case err == nil:
		s.o.Log.Warn("a drill was not run", "drill", r.Name, "verdict", string(r.Verdict), "reason", r.Reason)
	case !errors.Is(err, ErrClaimed):
		return fmt.Errorf("note that drill %s was not run: %w", a.Spec.Name, err)
	}
	return nil
}
