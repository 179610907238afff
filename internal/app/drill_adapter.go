package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"headgate/internal/sqlite"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
	"headgate/runbooks/drill/schedule"
	"headgate/runbooks/drill/spec"
	"headgate/web/api"
)

// maxUpcoming is how many due times are shown of a drill.
const maxUpcoming = 5

// drillAPI are drills as the admin plane sees them; nil if there are none.
func (a *App) drillAPI() *api.DrillPorts {
	if a.drills == nil {
		return nil
	}
	return &api.DrillPorts{Catalog: drillLister{a.drills}, Controller: drillCommands{a.drills}, Runs: drillRunStore{a.drills.store}}
}

// drillRunStore is the record of drills. It implements api.DrillRunReader.
type drillRunStore struct{ *sqlite.Drills }

// Runs implements api.DrillRunReader.
func (r drillRunStore) Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error) {
	runs, next, err = r.Drills.Runs(ctx, q)
	if errors.Is(err, sqlite.ErrPageKey) {
		err = api.ErrUnknownCursor
	}
	return runs, next, err
}

// drillLister shows which drills there are. It implements api.DrillCatalog.
type drillLister struct{ *drillService }

// Live implements api.DrillCatalog.
func (b drillLister) Live(id string) (drill.Run, bool) {
	r, ok := b.runner.Current()
	return r, ok && r.ID == id
}

// Drills implements api.DrillCatalog.
func (b drillLister) Drills(ctx context.Context, now time.Time) (api.DrillStates, error) {
	var states api.DrillStates
	known, err := b.readStored(ctx)
	if err != nil {
		b.log.Warn("the record of drills cannot be read, they are shown without it", "error", err)
	}
	states.Freeze = known.freeze
	current, going := b.runner.Current()
	for _, s := range b.app.currentDrillSpecs() {
		state := api.DrillState{Spec: s, Problems: b.problems(s)}
		if going && current.Drill == s.ID {
			state.Running = current.ID
		}
		if last, ok := known.last[s.ID]; ok {
			state.Last = &last
		}
		state.LastPassed = known.latest[s.ID].PassedAt
		b.setSchedule(&state, known, now)
		states.Items = append(states.Items, state)
	}
	return states, nil
}

// storedDrills is what the record says of drills, by ID.
type storedDrills struct {
	freeze   drill.Freeze
	dues     map[string]drill.DueTime
	firstDue map[string]time.Time // when their schedules first came
	latest   map[string]drill.Latest
	last     map[string]drill.Run
}

// readStored reads as much of the record as can be read.
func (b drillLister) readStored(ctx context.Context) (k storedDrills, err error) {
	var errs [5]error
	k.freeze, errs[0] = b.store.Frozen(ctx)
	k.dues, errs[1] = b.store.DueTimes(ctx)
	k.latest, k.last = map[string]drill.Latest{}, map[string]drill.Run{}
	latest, err := b.store.Latest(ctx)
	errs[2] = err
	var ids []string
	for _, l := range latest {
		k.latest[l.Drill] = l
		ids = append(ids, l.Run)
	}
	runs, err := b.store.RunsByID(ctx, ids)
	errs[3] = err
	k.firstDue, errs[4] = b.store.FirstDue(ctx)
	for _, r := range runs {
		k.last[r.Drill] = r
	}
	return k, errors.Join(errs[:]...)
}

// setSchedule says when a drill is due next, and whether its latest pass is too old.
func (b drillLister) setSchedule(state *api.DrillState, k storedDrills, now time.Time) {
	s := state.Spec
	due, err := schedule.ParseSchedule(s.Schedule, s.Zone)
	if s.Schedule == "" || err != nil { // one that cannot be read has been refused where it was set
		return
	}
	for _, o := range schedule.Upcoming(s, k.dues[s.ID], now, maxUpcoming) {
		state.Next = append(state.Next, api.DrillDueTime{At: o.At, Note: o.ClockChangeNote(due.Location())})
	}
	state.Overdue = drill.Overdue(now, state.LastPassed, k.firstDue[s.ID], due.Period(now))
}

// problems says why a drill cannot run as it stands.
func (b drillLister) problems(s drill.Spec) (texts []string) {
	err := spec.Validate(s, drillSettings(b.app.currentConfig()))
	var all spec.SpecErrors
	if errors.As(err, &all) {
		for _, p := range all {
			texts = append(texts, p.Error())
		}
		return texts
	}
	if err != nil {
		texts = append(texts, err.Error())
	}
	return texts
}

// drillCommands takes orders about drills and puts them into the audit. It
// implements api.DrillController.
type drillCommands struct{ *drillService }

// Start implements api.DrillController.
func (o drillCommands) Start(ctx context.Context, order api.DrillStartRequest) (api.DrillStartResult, error) {
	spec, ok := spec.Find(o.app.currentDrillSpecs(), order.Name)
	if !ok {
		return api.DrillStartResult{}, api.ErrNoDrill
	}
	speed := order.Speed
	if speed == 0 {
		speed = max(spec.Speed, 1)
	}
	started := api.DrillStartResult{Plan: o.plan(spec, speed)}
	err := o.checkAllowed(spec, speed)
	if order.DryRun {
		if err == nil {
			err = o.checkReady(ctx, spec)
		}
		if err != nil {
			started.Plan.Blocked = err.Error()
		}
		return started, nil
	}
	var run drill.Run
	if err == nil {
		run, err = o.runner.Start(ctx, runner.Request{Spec: spec, Trigger: drill.ByHand, Actor: order.Actor, Reason: order.Reason, Speed: order.Speed})
	}
	o.audit(ctx, "drill run", run.ID, order.Actor, order.Reason, err, map[string]string{"drill": spec.ID, "speed": strconv.FormatFloat(speed, 'g', -1, 64)})
	started.Run = run.ID
	return started, toDrillRefusal(err)
}

// plan says what a run does, before it does it.
func (o drillCommands) plan(s drill.Spec, speed float64) api.DrillPlan {
	p := api.DrillPlan{
		Drill: s.ID, Name: s.Name, Target: s.Target, Pool: s.Pool, Speed: speed, Scenario: s.TotalDuration(),
		WallTime: time.Duration(float64(s.TotalDuration()) / speed), Steps: spec.Outline(s),
	}
	cfg := o.app.currentConfig()
	if pool, err := findPool(cfg, s.Pool); err == nil {
		p.Pool = pool.Name
	}
	for _, e := range s.Expect {
		p.Hypotheses = append(p.Hypotheses, e.String())
	}
	if s.Target == drill.Twin {
		p.NotificationTarget = slackChannel(cfg.Slack).Target()
	}
	return p
}

// checkAllowed says whether the settings allow a run.
func (o drillCommands) checkAllowed(s drill.Spec, speed float64) error {
	if err := spec.Validate(s, drillSettings(o.app.currentConfig())); err != nil {
		return &api.DrillRefusedError{Reason: err.Error()}
	}
	if s.Target == drill.Live && speed != 1 {
		return &api.DrillRefusedError{Reason: "the speed of a live drill must be 1: production runs no faster"}
	}
	if !(speed >= 1 && speed <= drill.MaxSpeed) {
		return &api.DrillRefusedError{Reason: fmt.Sprintf("the speed must be from 1 to %d", drill.MaxSpeed)}
	}
	return nil
}

// checkReady says why a run would not begin now, or would be skipped.
func (o drillCommands) checkReady(ctx context.Context, s drill.Spec) error {
	freeze, err := o.store.Frozen(ctx)
	switch {
	case err != nil:
		return errors.New("the record cannot be read")
	case freeze.On:
		return fmt.Errorf("drills are frozen by %s: %s", freeze.Actor, freeze.Reason)
	}
	if r, ok := o.runner.Current(); ok {
		return &drill.BusyError{Run: r.ID, Drill: r.Name, Since: r.Started}
	}
	looker := production{app: o.app} // what runs counts from its own beginning
	return looker.Ready(ctx, drill.Run{Drill: s.ID, Name: s.Name, Spec: s})
}

// Abort implements api.DrillController.
func (o drillCommands) Abort(ctx context.Context, id, by, reason string) (drill.Run, error) {
	run, err := o.runner.Abort(ctx, id, by, reason)
	if errors.Is(err, runner.ErrNotRunning) {
		if run, err = o.store.Run(ctx, id); err == nil {
			err = &api.DrillRefusedError{Reason: fmt.Sprintf("the run does not go on here any more: it is %s %s", run.Status, run.Verdict)}
		}
	}
	o.audit(ctx, "drill abort", id, by, reason, err, nil)
	if err != nil {
		return drill.Run{}, err
	}
	if over, err := o.runner.Wait(ctx, id); err == nil { // it has little left to do
		run = over
	}
	return run, nil
}

// Freeze implements api.DrillController.
func (o drillCommands) Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error) {
	set, action := o.runner.Unfreeze, "drill unfreeze"
	if f.On {
		set, action = o.runner.Freeze, "drill freeze"
	}
	err := set(ctx, f.Actor, f.Reason)
	o.audit(ctx, action, "", f.Actor, f.Reason, err, nil)
	if err != nil {
		return drill.Freeze{}, err
	}
	return o.store.Frozen(ctx)
}

// audit puts an order into the audit.
func (o drillCommands) audit(ctx context.Context, action, subject, by, reason string, err error, inputs map[string]string) {
	e := control.AuditEntry{
		At: time.Now(), Kind: control.KindDrill, Action: action, Result: control.Done, Subject: subject, Actor: by, Via: api.ViaFromContext(ctx),
		Reason: reason, Inputs: inputs,
	}
	var refused *api.DrillRefusedError
	var busy *drill.BusyError
	switch {
	case errors.As(toDrillRefusal(err), &refused):
		e.Result, e.Reason = control.Refused, refused.Reason
	case errors.As(err, &busy):
		e.Result, e.Reason = control.Refused, busy.Error()
	case errors.Is(err, drill.ErrFrozen):
		e.Result, e.Reason = control.Refused, drill.ErrFrozen.Error()
	case errors.Is(err, drill.ErrNoRun):
		e.Result, e.Reason = control.Refused, drill.ErrNoRun.Error()
	case err != nil:
		e.Result, e.Reason = control.Failed, "the record or the runner failed; the log says why"
	}
	o.app.auditor.Append(e)
}

// toDrillRefusal makes what a runner refuses a refusal of the admin plane.
func toDrillRefusal(err error) error {
	var problems spec.SpecErrors
	if errors.As(err, &problems) || errors.Is(err, runner.ErrClosed) {
		return &api.DrillRefusedError{Reason: err.Error()}
	}
	return err
}
