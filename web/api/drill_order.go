package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/internal/format"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

const (
	// drillTimeout bounds orders about drills: faults are cleared within a second, and
	// a claim waits for the record.
	drillTimeout = 4 * time.Second
	// MaxSpeed bounds how many scenario seconds pass in one of the wall clock.
	MaxSpeed = drill.MaxSpeed
)

// DrillRunRequest is the body of POST /api/v1/drills/{name}/run.
type DrillRunRequest struct {
	Speed  float64 `json:"speed,omitempty"` // 0: as the drill has it
	DryRun bool    `json:"dry_run,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// DrillRunReply says what was begun, or would be.
type DrillRunReply struct {
	DryRun bool          `json:"dry_run"`
	Run    *string       `json:"run"` // ID; null in a dry run
	Plan   DrillPlanView `json:"plan"`
}

// DrillPlanView says what a run does, before it does it.
type DrillPlanView struct {
	Drill              string   `json:"drill"`
	Name               string   `json:"name"`
	Target             string   `json:"target"`
	Pool               string   `json:"pool"`
	Speed              float64  `json:"speed"`
	ScenarioS          float64  `json:"scenario_s"` // at most, scenario time
	WallTimeS          float64  `json:"takes_s"`    // at most, of the wall clock
	NotificationTarget string   `json:"messages_to"`
	Steps              []string `json:"steps"`
	Hypotheses         []string `json:"hypotheses"`
	Blocked            *string  `json:"blocked"` // why it would not begin now; null: it would
}

// ReasonRequest is the body of an abort, a freeze and an unfreeze.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty"`
}

func planView(p drill.Plan) DrillPlanView {
	v := DrillPlanView{
		Drill: p.Drill, Name: p.Name, Target: string(p.Target), Pool: p.Pool, Speed: drill.Finite(p.Speed), ScenarioS: control.Seconds(p.Scenario),
		WallTimeS: control.Seconds(p.WallTime), NotificationTarget: p.NotificationTarget, Steps: append([]string{}, p.Steps...), Hypotheses: append([]string{}, p.Hypotheses...),
	}
	if p.Blocked != "" {
		v.Blocked = &p.Blocked
	}
	return v
}

// CheckDrill refuses what cannot be the name or the ID of a drill.
func CheckDrill(name string) error {
	if name == "" || len(name) > maxParam || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		strings.Trim(name, ".") == "" {
		return fmt.Errorf("%s cannot be a drill: a name has 1 to %d bytes, and is printable", quoteName(name), maxParam)
	}
	return nil
}

type viaKey struct{}

// ViaFromContext returns the interface through which a request about drills came.
func ViaFromContext(ctx context.Context) control.Via {
	via, ok := ctx.Value(viaKey{}).(control.Via)
	if !ok {
		return control.ViaAPI
	}
	return via
}

// drillContext is for a request about drills: bounded in time, and with the interface through which it came.
func drillContext(ctx context.Context, by control.Actor) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(ctx, viaKey{}, by.Via), drillTimeout)
}

func (a *Admin) startDrill(w http.ResponseWriter, r *http.Request) {
	var req DrillRunRequest
	by, p := decodeRequest(w, r, map[string]any{"speed": &req.Speed, "dry_run": &req.DryRun, "reason": &req.Reason})
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	reply, err := a.RunDrill(r.Context(), by, r.PathValue("name"), req)
	a.reply(w, reply, err)
}

// RunDrill starts a run, or says what it would do.
func (a *Admin) RunDrill(ctx context.Context, by control.Actor, name string, req DrillRunRequest) (DrillRunReply, error) {
	if a.drills == nil {
		return DrillRunReply{}, noDrills()
	}
	if err := checkLine("reason", req.Reason, MaxReason); err != nil {
		return DrillRunReply{}, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	if err := CheckDrill(name); err != nil {
		return DrillRunReply{}, &Problem{Type: TypeUnknownDrill, Status: http.StatusNotFound, Detail: format.Sentence(err.Error()) + "."}
	}
	if req.Speed != 0 && (req.Speed < 1 || req.Speed > MaxSpeed) {
		return DrillRunReply{}, badRequest(http.StatusBadRequest, fmt.Sprintf("speed must be from 1 to %d, or be left out.", MaxSpeed))
	}
	ctx, cancel := drillContext(ctx, by)
	defer cancel()
	started, err := a.drills.Controller.Start(ctx, drill.StartRequest{Name: name, Speed: req.Speed, DryRun: req.DryRun, Reason: req.Reason, Actor: by.Name})
	if err != nil {
		return DrillRunReply{}, a.drillProblem("run a drill", err)
	}
	reply := DrillRunReply{DryRun: req.DryRun, Plan: planView(started.Plan)}
	if !req.DryRun {
		reply.Run = &started.Run
	}
	return reply, nil
}

func (a *Admin) abortRun(w http.ResponseWriter, r *http.Request) {
	var req ReasonRequest
	by, p := decodeRequest(w, r, map[string]any{"reason": &req.Reason})
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	run, err := a.AbortRun(r.Context(), by, r.PathValue("id"), req.Reason)
	a.reply(w, run, err)
}

// AbortRun stops a run, and returns it once its faults are cleared.
func (a *Admin) AbortRun(ctx context.Context, by control.Actor, id, reason string) (drill.Run, error) {
	if a.drills == nil {
		return drill.Run{}, noDrills()
	}
	if err := checkLine("reason", reason, MaxReason); err != nil {
		return drill.Run{}, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	if err := CheckID(id); err != nil {
		return drill.Run{}, &Problem{Type: TypeUnknownRun, Status: http.StatusNotFound, Detail: "The run " + err.Error() + "."}
	}
	ctx, cancel := drillContext(ctx, by)
	defer cancel()
	run, err := a.drills.Controller.Abort(ctx, id, by.Name, reason)
	if err != nil {
		return drill.Run{}, a.drillProblem("abort a run", err)
	}
	return run.Summary(), nil
}

func (a *Admin) freezeDrills(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req ReasonRequest
		by, p := decodeRequest(w, r, map[string]any{"reason": &req.Reason})
		if p != nil {
			WriteProblem(w, *p)
			return
		}
		f, err := a.FreezeDrills(r.Context(), by, on, req.Reason)
		a.reply(w, f, err)
	}
}

// FreezeDrills stops what runs and refuses new runs, or lets drills run again.
func (a *Admin) FreezeDrills(ctx context.Context, by control.Actor, on bool, reason string) (DrillFreeze, error) {
	if a.drills == nil {
		return DrillFreeze{}, noDrills()
	}
	if err := checkLine("reason", reason, MaxReason); err != nil {
		return DrillFreeze{}, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	if on && reason == "" {
		return DrillFreeze{}, badRequest(http.StatusBadRequest, "reason must say why: others will wonder why no drill runs.")
	}
	ctx, cancel := drillContext(ctx, by)
	defer cancel()
	f, err := a.drills.Controller.Freeze(ctx, drill.Freeze{On: on, Actor: by.Name, Reason: reason, Since: time.Now().UTC()})
	if err != nil {
		return DrillFreeze{}, a.drillProblem("freeze drills", err)
	}
	return freezeOf(f), nil
}

// drillProblem is where the errors about drills become statuses.
func (a *Admin) drillProblem(what string, err error) *Problem {
	var busy *drill.BusyError
	var refusal *drill.RefusedError
	switch {
	case errors.Is(err, drill.ErrNoDrill):
		p := &Problem{Type: TypeUnknownDrill, Status: http.StatusNotFound, Detail: "There is no such drill.", Drills: a.drillNames()}
		if len(p.Drills) > 0 {
			p.Detail = truncateDetail("There is no such drill. There are: " + strings.Join(p.Drills, ", ") + ".")
		}
		return p
	case errors.Is(err, drill.ErrNoRun):
		return &Problem{Type: TypeUnknownRun, Status: http.StatusNotFound, Detail: "There is no such run; runs that ended long ago are not kept."}
	case errors.Is(err, drill.ErrFrozen):
		return &Problem{Type: TypeDrillsFrozen, Status: http.StatusConflict, Detail: "Drills are frozen, none is begun until headgate drill unfreeze."}
	case errors.As(err, &busy):
		return &Problem{Type: TypeDrillBusy, Status: http.StatusConflict, Run: busy.Run, Detail: truncateDetail(format.Sentence(busy.Error())) + "; only one runs at a time."}
	case errors.As(err, &refusal):
		return &Problem{Type: TypeDrillRefused, Status: http.StatusConflict, Detail: truncateDetail(format.Sentence(refusal.Reason)) + "."}
	case errors.Is(err, control.ErrUnknownCursor):
		return badCursor()
	default:
		a.log.Error("a request about drills failed", "request", what, "error", err)
		return &Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record of drills cannot be used just now; the log says why."}
	}
}

// drillNames are shown to whoever asked for another one.
func (a *Admin) drillNames() (names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	states, err := a.drills.Catalog.Drills(ctx, time.Now())
	if err != nil {
		return nil
	}
	for _, s := range states.Items {
		names = append(names, s.Spec.ID)
	}
	return names
}
