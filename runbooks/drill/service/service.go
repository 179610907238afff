package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"headgate/internal/lifecycle"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
	"headgate/runbooks/drill/schedule"
	"headgate/runbooks/drill/spec"
)

// storeTimeout bounds reads of the store that are not part of a request.
const storeTimeout = 10 * time.Second

// Store is where runs, due times and their sums are kept.
type Store interface {
	drill.Store
	drill.DueTimeStore
	// Latest returns the latest run and the latest pass of each drill.
	Latest(ctx context.Context) ([]drill.Latest, error)
	RunsByID(ctx context.Context, ids []string) ([]drill.Run, error)
	// FirstDue returns when the schedule of each drill was first due.
	FirstDue(ctx context.Context) (map[string]time.Time, error)
}

// Options are what a Service needs. All fields but OnVerdict must be set.
type Options struct {
	Store        Store
	Environments drill.EnvironmentFactory
	Production   drill.Production
	Specs        func() []drill.Spec // as they are now
	Settings     func() spec.Settings
	// Pool returns the name of the pool of a drill; it is empty if there is none.
	Pool func(drill.Spec) string
	// NotificationTarget names where the messages of twins go.
	NotificationTarget func() string
	Metrics            *Metrics
	// OnVerdict is called for every run that has ended, and for those that were not started although they were due.
	OnVerdict func(drill.Run)
	Version   string // of headgate
	Log       *slog.Logger
}

// Service runs drills by hand and by schedule. Its methods may be called from any goroutine.
type Service struct {
	o         Options
	runner    *runner.Runner
	scheduler *schedule.Scheduler
	loop      *lifecycle.Task
}

// Start closes the runs that an earlier process has left, and starts the schedule.
func Start(ctx context.Context, o Options) (*Service, error) {
	s := &Service{o: o}
	left, err := o.Store.CloseInterrupted(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	for _, r := range left {
		o.Log.Warn("drill interrupted by the end of the process", "drill", r.Name, "run", r.ID)
		s.report(r)
	}
	s.runner, err = runner.New(runner.Options{
		Store: o.Store, Environments: o.Environments, Production: o.Production, Version: o.Version, Log: o.Log,
		OnEnded: s.runEnded,
	})
	if err != nil {
		return nil, err
	}
	s.scheduler = schedule.NewScheduler(schedule.SchedulerOptions{
		Specs: o.Specs, DueTimes: o.Store, Launch: s.launch, RecordNotRun: s.RecordNotRun, Log: o.Log,
	})
	o.Metrics.SetSpecs(o.Specs(), time.Now())
	s.restorePasses(ctx)
	s.loop = lifecycle.Go(s.scheduler.Run)
	return s, nil
}

// Stop ends the schedule, aborts the run in progress, and waits until it has ended or ctx ends.
func (s *Service) Stop(ctx context.Context) error {
	s.loop.Cancel()
	return errors.Join(s.runner.Close(ctx), s.loop.Stop(ctx))
}

// Reload takes over changed definitions. It does not call Specs.
func (s *Service) Reload(specs []drill.Spec) {
	s.o.Metrics.SetSpecs(specs, time.Now())
	s.scheduler.Wake()
}

// launch starts a run that is due.
func (s *Service) launch(ctx context.Context, d drill.Spec, t drill.Trigger, scheduled time.Time) error {
	_, err := s.runner.Start(ctx, runner.Request{Spec: d, Trigger: t, Actor: "schedule", Scheduled: scheduled})
	return err
}

// RecordNotRun records a run that was due and did not start, under a new ID.
func (s *Service) RecordNotRun(ctx context.Context, r drill.Run) error {
	r.ID, r.Version = uuid.Must(uuid.NewV7()).String(), s.o.Version
	if err := s.o.Store.RecordNotRun(ctx, r); err != nil {
		return err
	}
	s.updateFirstDue(ctx)
	if r.Reason == drill.ErrFrozen.Error() { // no notification: the person who froze them knows
		s.o.Metrics.observe(r)
		return nil
	}
	s.report(r)
	return nil
}

// runEnded is called for every run that has ended, by the runner.
func (s *Service) runEnded(r drill.Run) {
	s.updateFirstDue(context.Background())
	s.scheduler.Wake() // another drill may wait for its turn
	s.report(r)
}

func (s *Service) report(r drill.Run) {
	s.o.Metrics.observe(r)
	if s.o.OnVerdict != nil {
		s.o.OnVerdict(r)
	}
}

// restorePasses sets the metrics of passes from the store.
func (s *Service) restorePasses(ctx context.Context) {
	all, err := s.o.Store.Latest(ctx)
	if err != nil {
		s.o.Log.Warn("last passes of drills not read", "err", err)
		return
	}
	for _, l := range all {
		if _, known := spec.Find(s.o.Specs(), l.Drill); known && !l.PassedAt.IsZero() {
			setTime(s.o.Metrics.lastPass, l.Drill, l.PassedAt)
		}
	}
	s.updateFirstDue(ctx)
}

// updateFirstDue sets the metric of first due times: the age of a drill that never passed counts from there.
func (s *Service) updateFirstDue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	dues, err := s.o.Store.FirstDue(ctx)
	if err != nil {
		s.o.Log.Warn("first due times of drills not read", "err", err)
		return
	}
	for _, d := range s.o.Specs() {
		if at, ok := dues[d.ID]; ok && d.Schedule != "" {
			setTime(s.o.Metrics.firstDue, d.ID, at)
		}
	}
}

// Live returns a run in progress as it is in memory.
func (s *Service) Live(id string) (drill.Run, bool) {
	r, ok := s.runner.Current()
	return r, ok && r.ID == id
}

// maxUpcoming is how many due times of a drill are shown.
const maxUpcoming = 5

// Drills returns the states of all drills. What cannot be read from the store is left out.
func (s *Service) Drills(ctx context.Context, now time.Time) (drill.States, error) {
	known, err := s.readStored(ctx)
	if err != nil {
		s.o.Log.Warn("record of drills not read, states are incomplete", "error", err)
	}
	states := drill.States{Freeze: known.freeze}
	current, running := s.runner.Current()
	for _, d := range s.o.Specs() {
		state := drill.State{Spec: d, Problems: s.problems(d), LastPassed: known.latest[d.ID].PassedAt}
		if running && current.Drill == d.ID {
			state.Running = current.ID
		}
		if last, ok := known.last[d.ID]; ok {
			state.Last = &last
		}
		// Invalid schedules were refused with the settings.
		if due, err := schedule.ParseSchedule(d.Schedule, d.Zone); d.Schedule != "" && err == nil {
			for _, o := range schedule.Upcoming(d, known.dues[d.ID], now, maxUpcoming) {
				state.Next = append(state.Next, drill.Upcoming{At: o.At, Note: o.ClockChangeNote(due.Location())})
			}
			state.Overdue = drill.Overdue(now, state.LastPassed, known.firstDue[d.ID], due.Period(now))
		}
		states.Items = append(states.Items, state)
	}
	return states, nil
}

// storedDrills is what the store holds of drills, by ID.
type storedDrills struct {
	freeze   drill.Freeze
	dues     map[string]drill.DueTime
	firstDue map[string]time.Time // of their schedules
	latest   map[string]drill.Latest
	last     map[string]drill.Run
}

// readStored reads as much of the store as can be read.
func (s *Service) readStored(ctx context.Context) (k storedDrills, err error) {
	var errs [5]error
	var latest []drill.Latest
	var runs []drill.Run
	k.freeze, errs[0] = s.o.Store.Frozen(ctx)
	k.dues, errs[1] = s.o.Store.DueTimes(ctx)
	k.firstDue, errs[2] = s.o.Store.FirstDue(ctx)
	latest, errs[3] = s.o.Store.Latest(ctx)
	k.latest, k.last = map[string]drill.Latest{}, map[string]drill.Run{}
	var ids []string
	for _, l := range latest {
		k.latest[l.Drill] = l
		ids = append(ids, l.Run)
	}
	runs, errs[4] = s.o.Store.RunsByID(ctx, ids)
	for _, r := range runs {
		k.last[r.Drill] = r
	}
	return k, errors.Join(errs[:]...)
}

// problems says why a drill cannot run as it is.
func (s *Service) problems(d drill.Spec) (texts []string) {
	var all spec.SpecErrors
	errors.As(spec.Validate(d, s.o.Settings()), &all)
	for _, p := range all {
		texts = append(texts, p.Error())
	}
	return texts
}

// Start starts a run by hand, or with DryRun says what it would do. It returns before the run has ended.
func (s *Service) Start(ctx context.Context, q drill.StartRequest) (drill.StartResult, error) {
	d, ok := spec.Find(s.o.Specs(), q.Name)
	if !ok {
		return drill.StartResult{}, drill.ErrNoDrill
	}
	speed := q.Speed
	if speed == 0 {
		speed = max(d.Speed, 1)
	}
	result := drill.StartResult{Plan: s.plan(d, speed)}
	err := s.checkAllowed(d, speed)
	if err == nil && q.DryRun {
		err = s.checkReady(ctx, d)
	}
	switch {
	case err != nil && q.DryRun:
		result.Plan.Blocked = err.Error()
		return result, nil
	case err != nil, q.DryRun:
		return result, err
	}
	request := runner.Request{Spec: d, Trigger: drill.ByHand, Actor: q.Actor, Reason: q.Reason, Speed: speed}
	run, err := s.runner.Start(ctx, request)
	if errors.Is(err, runner.ErrClosed) {
		err = &drill.RefusedError{Reason: err.Error()}
	}
	result.Run = run.ID
	return result, err
}

// plan says what a run does.
func (s *Service) plan(d drill.Spec, speed float64) drill.Plan {
	p := drill.Plan{
		Drill: d.ID, Name: d.Name, Target: d.Target, Pool: d.Pool, Speed: speed, Scenario: d.TotalDuration(),
		WallTime: time.Duration(float64(d.TotalDuration()) / speed), Steps: spec.Outline(d),
	}
	if pool := s.o.Pool(d); pool != "" {
		p.Pool = pool
	}
	for _, e := range d.Expect {
		p.Hypotheses = append(p.Hypotheses, e.String())
	}
	if d.Target == drill.Twin {
		p.NotificationTarget = s.o.NotificationTarget()
	}
	return p
}

// checkAllowed says whether the settings allow a run.
func (s *Service) checkAllowed(d drill.Spec, speed float64) error {
	if err := spec.Validate(d, s.o.Settings()); err != nil {
		return &drill.RefusedError{Reason: err.Error()}
	}
	return d.CheckSpeed(speed)
}

// checkReady says why a run would not start now, or would be skipped.
func (s *Service) checkReady(ctx context.Context, d drill.Spec) error {
	freeze, err := s.o.Store.Frozen(ctx)
	switch {
	case err != nil:
		return errors.New("the record cannot be read")
	case freeze.On:
		return fmt.Errorf("drills are frozen by %s: %s", freeze.Actor, freeze.Reason)
	}
	if r, ok := s.runner.Current(); ok {
		return &drill.BusyError{Run: r.ID, Drill: r.Name, Since: r.Started}
	}
	return s.o.Production.Ready(ctx, drill.Run{Drill: d.ID, Name: d.Name, Spec: d})
}

// Abort stops a run and returns it as soon as its faults are cleared.
func (s *Service) Abort(ctx context.Context, id, by, reason string) (drill.Run, error) {
	run, err := s.runner.Abort(ctx, id, by, reason)
	if errors.Is(err, runner.ErrNotRunning) {
		if run, err = s.o.Store.Run(ctx, id); err == nil {
			reason := fmt.Sprintf("the run is not in progress here: it is %s %s", run.Status, run.Verdict)
			err = &drill.RefusedError{Reason: reason}
		}
	}
	if err != nil {
		return drill.Run{}, err
	}
	if ended, err := s.runner.Wait(ctx, id); err == nil { // it has little left to do
		run = ended
	}
	return run, nil
}

// Freeze aborts the run in progress and refuses new ones, or with On false allows drills again. It returns the state
// afterwards.
func (s *Service) Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error) {
	if err := s.runner.SetFreeze(ctx, f); err != nil {
		return drill.Freeze{}, err
	}
	return s.o.Store.Frozen(ctx)
}
