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
	"headgate/web/api"
)

// shownDues is how many due times are shown of a drill.
const shownDues = 5

// drillPorts are drills as the admin plane sees them; nil if there are none.
func (a *App) drillPorts() *api.Drills {
	if a.drills == nil {
		return nil
	}
	return &api.Drills{Board: drillBoard{a.drills}, Orders: drillOrders{a.drills}, Record: drillRecord{a.drills.store}}
}

// drillRecord is the record of drills. It implements api.DrillRecord.
type drillRecord struct{ *sqlite.Drills }

// Runs implements api.DrillRecord.
func (r drillRecord) Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error) {
	runs, next, err = r.Drills.Runs(ctx, q)
	if errors.Is(err, sqlite.ErrKey) {
		err = api.ErrUnknownKey
	}
	return runs, next, err
}

// drillBoard shows which drills there are. It implements api.DrillBoard.
type drillBoard struct{ *rehearsals }

// Live implements api.DrillBoard.
func (b drillBoard) Live(id string) (drill.Run, bool) {
	r, ok := b.runner.Current()
	return r, ok && r.ID == id
}

// Drills implements api.DrillBoard.
func (b drillBoard) Drills(ctx context.Context, now time.Time) (api.DrillStates, error) {
	var states api.DrillStates
	known, err := b.known(ctx)
	if err != nil {
		b.log.Warn("the record of drills cannot be read, they are shown without it", "error", err)
	}
	states.Freeze = known.freeze
	current, going := b.runner.Current()
	for _, s := range b.app.specs() {
		state := api.DrillState{Spec: s, Problems: b.problems(s)}
		if going && current.Drill == s.ID {
			state.Running = current.ID
		}
		if last, ok := known.last[s.ID]; ok {
			state.Last = &last
		}
		state.Passed = known.latest[s.ID].PassAt
		b.due(&state, known, now)
		states.Items = append(states.Items, state)
	}
	return states, nil
}

// known is what the record says of drills, by ID.
type known struct {
	freeze drill.Freeze
	dues   map[string]drill.Due
	first  map[string]time.Time // when their schedules first came
	latest map[string]drill.Latest
	last   map[string]drill.Run
}

// known reads as much of the record as can be read.
func (b drillBoard) known(ctx context.Context) (k known, err error) {
	var errs [5]error
	k.freeze, errs[0] = b.store.Frozen(ctx)
	k.dues, errs[1] = b.store.Dues(ctx)
	k.latest, k.last = map[string]drill.Latest{}, map[string]drill.Run{}
	latest, err := b.store.Latest(ctx)
	errs[2] = err
	var ids []string
	for _, l := range latest {
		k.latest[l.Drill] = l
		ids = append(ids, l.Run)
	}
	runs, err := b.store.Picked(ctx, ids)
	errs[3] = err
	k.first, errs[4] = b.store.FirstDue(ctx)
	for _, r := range runs {
		k.last[r.Drill] = r
	}
	return k, errors.Join(errs[:]...)
}

// due says when a drill is due next, and whether its latest pass is too old.
func (b drillBoard) due(state *api.DrillState, k known, now time.Time) {
	s := state.Spec
	schedule, err := drill.ParseSchedule(s.Schedule, s.Zone)
	if s.Schedule == "" || err != nil { // one that cannot be read has been refused where it was set
		return
	}
	for _, o := range drill.Upcoming(s, k.dues[s.ID], now, shownDues) {
		state.Next = append(state.Next, api.DrillDue{At: o.At, Note: o.Note(schedule.Location())})
	}
	state.Overdue = drill.Expired(now, state.Passed, k.first[s.ID], schedule.Period(now))
}

// problems says why a drill cannot run as it stands.
func (b drillBoard) problems(s drill.Spec) (texts []string) {
	err := drill.Check(s, drillSettings(b.app.settings()))
	var all drill.Problems
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

// drillOrders takes orders about drills and puts them into the audit. It
// implements api.DrillOrders.
type drillOrders struct{ *rehearsals }

// Start implements api.DrillOrders.
func (o drillOrders) Start(ctx context.Context, order api.DrillOrder) (api.DrillStarted, error) {
	spec, ok := drill.Find(o.app.specs(), order.Name)
	if !ok {
		return api.DrillStarted{}, api.ErrNoDrill
	}
	speed := order.Speed
	if speed == 0 {
		speed = max(spec.Speed, 1)
	}
	started := api.DrillStarted{Plan: o.plan(spec, speed)}
	err := o.allowed(spec, speed)
	if order.DryRun {
		if err == nil {
			err = o.blocked(ctx, spec)
		}
		if err != nil {
			started.Plan.Blocked = err.Error()
		}
		return started, nil
	}
	var run drill.Run
	if err == nil {
		run, err = o.runner.Start(ctx, drill.Request{Spec: spec, Trigger: drill.ByHand, Actor: order.Actor, Reason: order.Reason, Speed: order.Speed})
	}
	o.note(ctx, "drill run", run.ID, order.Actor, order.Reason, err, map[string]string{"drill": spec.ID, "speed": strconv.FormatFloat(speed, 'g', -1, 64)})
	started.Run = run.ID
	return started, refusal(err)
}

// plan says what a run does, before it does it.
func (o drillOrders) plan(s drill.Spec, speed float64) api.DrillPlan {
	p := api.DrillPlan{
		Drill: s.ID, Name: s.Name, Target: s.Target, Pool: s.Pool, Speed: speed, Scenario: s.Lasts(),
		Takes: time.Duration(float64(s.Lasts()) / speed), Steps: s.Outline(),
	}
	cfg := o.app.settings()
	if pool, err := drillPool(cfg, s.Pool); err == nil {
		p.Pool = pool.Name
	}
	for _, e := range s.Expect {
		p.Hypotheses = append(p.Hypotheses, e.String())
	}
	if s.Target == drill.Twin {
		p.MessagesGoTo, _ = drillChannel(cfg.Slack)
	}
	return p
}

// allowed says whether the settings allow a run.
func (o drillOrders) allowed(s drill.Spec, speed float64) error {
	if err := drill.Check(s, drillSettings(o.app.settings())); err != nil {
		return &api.DrillRefusal{Why: err.Error()}
	}
	if s.Target == drill.Live && speed != 1 {
		return &api.DrillRefusal{Why: "the speed of a live drill must be 1: production runs no faster"}
	}
	if !(speed >= 1 && speed <= drill.MaxSpeed) {
		return &api.DrillRefusal{Why: fmt.Sprintf("the speed must be from 1 to %d", drill.MaxSpeed)}
	}
	return nil
}

// blocked says why a run would not begin now, or would be skipped.
func (o drillOrders) blocked(ctx context.Context, s drill.Spec) error {
	freeze, err := o.store.Frozen(ctx)
	switch {
	case err != nil:
		return errors.New("the record cannot be read")
	case freeze.On:
		return fmt.Errorf("drills are frozen by %s: %s", freeze.By, freeze.Reason)
	}
	if r, ok := o.runner.Current(); ok {
		return &drill.BusyError{Run: r.ID, Drill: r.Name, Since: r.Started}
	}
	looker := production{app: o.app} // what runs counts from its own beginning
	return looker.Ready(ctx, drill.Run{Drill: s.ID, Name: s.Name, Spec: s})
}

// Abort implements api.DrillOrders.
func (o drillOrders) Abort(ctx context.Context, id, by, reason string) (drill.Run, error) {
	run, err := o.runner.Abort(ctx, id, by, reason)
	if errors.Is(err, drill.ErrNotRunning) {
		if run, err = o.store.Run(ctx, id); err == nil {
			err = &api.DrillRefusal{Why: fmt.Sprintf("the run does not go on here any more: it is %s %s", run.Status, run.Verdict)}
		}
	}
	o.note(ctx, "drill abort", id, by, reason, err, nil)
	if err != nil {
		return drill.Run{}, err
	}
	if over, err := o.runner.Wait(ctx, id); err == nil { // it has little left to do
		run = over
	}
	return run, nil
}

// Freeze implements api.DrillOrders.
func (o drillOrders) Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error) {
	set, action := o.runner.Unfreeze, "drill unfreeze"
	if f.On {
		set, action = o.runner.Freeze, "drill freeze"
	}
	err := set(ctx, f.By, f.Reason)
	o.note(ctx, action, "", f.By, f.Reason, err, nil)
	if err != nil {
		return drill.Freeze{}, err
	}
	return o.store.Frozen(ctx)
}

// note puts an order into the audit.
func (o drillOrders) note(ctx context.Context, action, subject, by, reason string, err error, inputs map[string]string) {
	e := control.Entry{
		At: time.Now(), Kind: control.KindDrill, Action: action, Ending: control.Done, Subject: subject, Actor: by, Via: api.Via(ctx),
		Reason: reason, Inputs: inputs,
	}
	var refused *api.DrillRefusal
	var busy *drill.BusyError
	switch {
	case errors.As(refusal(err), &refused):
		e.Ending, e.Reason = control.Refused, refused.Why
	case errors.As(err, &busy):
		e.Ending, e.Reason = control.Refused, busy.Error()
	case errors.Is(err, drill.ErrFrozen):
		e.Ending, e.Reason = control.Refused, drill.ErrFrozen.Error()
	case errors.Is(err, drill.ErrNoRun):
		e.Ending, e.Reason = control.Refused, drill.ErrNoRun.Error()
	case err != nil:
		e.Ending, e.Reason = control.Failed, "the record or the runner failed; the log says why"
	}
	o.app.auditor.Note(e)
}

// refusal makes what a runner refuses a refusal of the admin plane.
func refusal(err error) error {
	var problems drill.Problems
	if errors.As(err, &problems) || errors.Is(err, drill.ErrClosed) {
		return &api.DrillRefusal{Why: err.Error()}
	}
	return err
}
