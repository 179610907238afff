package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"headgate/runbooks/drill"
)

const (
	// maxSleep bounds how long the loop sleeps, so that a wall clock that was put forward, or a machine that slept, is
	// noticed within that time. It also bounds one look.
	maxSleep      = 30 * time.Second
	recordTimeout = 10 * time.Second // for recording a run that did not begin
	// maxClockDrift is how far the wall clock may move against the monotonic clock without a warning.
	maxClockDrift = 5 * time.Second
)

// SchedulerOptions are what a Scheduler needs; all fields must be set.
type SchedulerOptions struct {
	Specs    func() []drill.Spec // as they are now
	DueTimes drill.DueTimeStore
	// Launch claims a run and begins it, and returns while it runs. ErrClaimed: this occurrence has had its run. A
	// *BusyError and ErrFrozen say why it did not begin.
	Launch func(ctx context.Context, s drill.Spec, t drill.Trigger, scheduled time.Time) error
	// RecordNotRun records a run that did not begin, and gives it its ID and version. ErrClaimed: it is recorded
	// already.
	RecordNotRun func(ctx context.Context, r drill.Run) error
	Log          *slog.Logger
}

// Scheduler starts drills when they are due. Due times are stored, so a restart neither loses nor delays a drill. A
// drill that is due while another one runs waits as long as its CatchUp allows, at least a minute.
type Scheduler struct {
	o         SchedulerOptions
	wake      chan struct{}
	blockedBy map[string]string // why a drill that is due waits, by ID
	lastTick  time.Time
}

// NewScheduler returns a Scheduler that does nothing until Run.
func NewScheduler(o SchedulerOptions) *Scheduler {
	return &Scheduler{o: o, wake: make(chan struct{}, 1), blockedBy: make(map[string]string)}
}

// Wake makes the loop look at once, after the drills have changed or one has ended.
func (s *Scheduler) Wake() {
	select {
	case s.wake <- struct{}{}:
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
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(s.tick(ctx))
	}
}

// tick does what is due, and returns how long to wait for the next look. A panic is logged; the next look tries again.
func (s *Scheduler) tick(ctx context.Context) (wait time.Duration) {
	wait = maxSleep
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("looking for drills that are due panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	now := time.Now()
	s.warnClockJump(now)
	looking, cancel := context.WithTimeout(ctx, maxSleep)
	defer cancel()
	// Records have the wall clock, which may have moved against the monotonic one.
	next, err := s.runDue(looking, now.Round(0))
	if err != nil && ctx.Err() == nil {
		s.o.Log.Error("drills that are due were not begun, trying again", "error", err)
	}
	if next.IsZero() {
		return wait
	}
	return min(wait, max(time.Until(next), time.Millisecond))
}

func (s *Scheduler) warnClockJump(now time.Time) {
	if !s.lastTick.IsZero() {
		if off := now.Round(0).Sub(s.lastTick.Round(0)) - now.Sub(s.lastTick); off.Abs() > maxClockDrift {
			s.o.Log.Warn("the wall clock was changed; drills follow it", "by", off)
		}
	}
	s.lastTick = now
}

// runDue carries out the plan, and returns the earliest stored due time; zero: there is none.
func (s *Scheduler) runDue(ctx context.Context, now time.Time) (next time.Time, err error) {
	dues, err := s.o.DueTimes.DueTimes(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when drills are due: %w", err)
	}
	for _, a := range Plan(now, s.o.Specs(), dues) {
		if ctx.Err() != nil {
			break
		}
		kept, actErr := s.execute(ctx, now, a)
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

// execute carries out one action, and returns the due time that is stored then. What fails is tried again at the next
// look: each step can be repeated.
func (s *Scheduler) execute(ctx context.Context, now time.Time, a PlannedAction) (drill.DueTime, error) {
	id := a.Spec.ID
	if a.Delete {
		delete(s.blockedBy, id)
		return drill.DueTime{}, s.o.DueTimes.DeleteDueTime(ctx, id)
	}
	if a.Missed.Count > 0 {
		if err := s.recordMissed(ctx, now, a); err != nil {
			return drill.DueTime{}, err
		}
		due := a.Next
		if a.Run != "" {
			due.Next = a.At.At
		}
		if err := s.o.DueTimes.SetDueTime(ctx, due); err != nil { // so that they are not missed twice
			return drill.DueTime{}, err
		}
	}
	if a.Run != "" {
		waits, err := s.launch(ctx, now, a)
		if err != nil || waits {
			return drill.DueTime{}, err
		}
	}
	delete(s.blockedBy, id)
	return a.Next, s.o.DueTimes.SetDueTime(ctx, a.Next)
}

// launch begins a run. One that has to wait for another stays due, so that the next look finds it.
func (s *Scheduler) launch(ctx context.Context, now time.Time, a PlannedAction) (waits bool, err error) {
	err = s.o.Launch(ctx, a.Spec, a.Run, a.At.At)
	var busy *drill.BusyError
	switch {
	case err == nil, errors.Is(err, drill.ErrClaimed):
		return false, nil
	case errors.As(err, &busy):
		if s.blockedBy[a.Spec.ID] == "" {
			s.o.Log.Info("a drill waits for its turn", "drill", a.Spec.Name, "for", busy.Drill, "run", busy.Run)
		}
		s.blockedBy[a.Spec.ID] = busy.Error()
		return true, nil
	case errors.Is(err, drill.ErrFrozen):
		skipped := drill.Run{Verdict: drill.Skipped, Reason: drill.ErrFrozen.Error(), Scheduled: a.At.At}
		return false, s.recordNotRun(ctx, now, a, skipped)
	default:
		return false, fmt.Errorf("begin drill %s: %w", a.Spec.Name, err)
	}
}

// recordMissed records one run, whatever the number. A drill that has waited for another was skipped, not missed: the
// reason names the other.
func (s *Scheduler) recordMissed(ctx context.Context, now time.Time, a PlannedAction) error {
	r := drill.Run{Verdict: drill.Missed, Reason: a.Missed.reason(), Scheduled: a.Missed.Last, Count: a.Missed.Count}
	if why := s.blockedBy[a.Spec.ID]; why != "" {
		r.Verdict, r.Reason = drill.Skipped, why
		if a.Missed.Count > 1 {
			r.Reason += fmt.Sprintf("; %d due times passed meanwhile", a.Missed.Count)
		}
	}
	return s.recordNotRun(ctx, now, a, r)
}

// recordNotRun records that an occurrence had no run.
func (s *Scheduler) recordNotRun(ctx context.Context, now time.Time, a PlannedAction, r drill.Run) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	r.Drill, r.Name, r.Spec, r.Trigger = a.Spec.ID, a.Spec.Name, a.Spec, drill.BySchedule
	r.Status, r.Ended = drill.Ended, now.UTC().Truncate(time.Millisecond)
	err := s.o.RecordNotRun(ctx, r)
	switch {
	case err == nil:
		s.o.Log.Warn("a drill was not run", "drill", r.Name, "verdict", string(r.Verdict), "reason", r.Reason)
	case !errors.Is(err, drill.ErrClaimed):
		return fmt.Errorf("record that drill %s was not run: %w", a.Spec.Name, err)
	}
	return nil
}
