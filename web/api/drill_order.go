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

func planView(p DrillPlan) DrillPlanView {
	v := DrillPlanView{
		Drill: p.Drill, Name: p.Name, Target: string(p.Target), Pool: p.Pool, Speed: drill.Finite(p.Speed), ScenarioS: Seconds(p.Scenario),
		WallTimeS: Seconds(p.WallTime), NotificationTarget: p.NotificationTarget, Steps: append([]string{}, p.Steps...), Hypotheses: append([]string{}, p.Hypotheses...),
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

func (a *Admin) startDrill(w http.ResponseWriter, r *http.Request) {
	o, p := decodeDrillStart(w, r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), drillTimeout)
	defer cancel()
	started, err := a.drills.Controller.Start(ctx, o)
	if err != nil {
		a.writeDrillError(w, "run a drill", err)
		return
	}
	reply := DrillRunReply{DryRun: o.DryRun, Plan: planView(started.Plan)}
	if !o.DryRun {
		reply.Run = &started.Run
	}
	writeJSON(w, http.StatusOK, "application/json", reply)
}

func decodeDrillStart(w http.ResponseWriter, r *http.Request) (DrillStartRequest, *Problem) {
	var req DrillRunRequest
	by, p := decodeReasonBody(w, r, &req.Reason, map[string]any{"speed": &req.Speed, "dry_run": &req.DryRun, "reason": &req.Reason})
	if p != nil {
		return DrillStartRequest{}, p
	}
	o := DrillStartRequest{Name: r.PathValue("name"), Speed: req.Speed, DryRun: req.DryRun, Reason: req.Reason, Actor: by}
	if err := CheckDrill(o.Name); err != nil {
		return o, &Problem{Type: TypeUnknownDrill, Status: http.StatusNotFound, Detail: capitalizeClause(err.Error()) + "."}
	}
	if o.Speed != 0 && (o.Speed < 1 || o.Speed > MaxSpeed) {
		return o, badRequest(http.StatusBadRequest, fmt.Sprintf("speed must be from 1 to %d, or be left out.", MaxSpeed))
	}
	return o, nil
}

// decodeReasonBody reads a body with a reason, and who sent it.
func decodeReasonBody(w http.ResponseWriter, r *http.Request, reason *string, fields map[string]any) (by string, p *Problem) {
	if _, p := parseQuery(r); p != nil {
		return "", p
	}
	if p := decodeObject(w, r, fields); p != nil {
		return "", p
	}
	if err := checkLine("reason", *reason, MaxReason); err != nil {
		return "", badRequest(http.StatusBadRequest, err.Error()+".")
	}
	actor, p := actorOf(r)
	return actor.Name, p
}

func (a *Admin) abortRun(w http.ResponseWriter, r *http.Request) {
	var req ReasonRequest
	by, p := decodeReasonBody(w, r, &req.Reason, map[string]any{"reason": &req.Reason})
	id := r.PathValue("id")
	if err := CheckID(id); p == nil && err != nil {
		p = &Problem{Type: TypeUnknownRun, Status: http.StatusNotFound, Detail: "The run " + err.Error() + "."}
	}
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), drillTimeout)
	defer cancel()
	run, err := a.drills.Controller.Abort(ctx, id, by, req.Reason)
	if err != nil {
		a.writeDrillError(w, "abort a run", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", run.Summary())
}

func (a *Admin) freezeDrills(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req ReasonRequest
		by, p := decodeReasonBody(w, r, &req.Reason, map[string]any{"reason": &req.Reason})
		if p == nil && on && req.Reason == "" {
			p = badRequest(http.StatusBadRequest, "reason must say why: others will wonder why no drill runs.")
		}
		if p != nil {
			WriteProblem(w, *p)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), drillTimeout)
		defer cancel()
		f, err := a.drills.Controller.Freeze(ctx, drill.Freeze{On: on, Actor: by, Reason: req.Reason, Since: time.Now().UTC()})
		if err != nil {
			a.writeDrillError(w, "freeze drills", err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", freezeOf(f))
	}
}

// writeDrillError is where the errors about drills become statuses.
func (a *Admin) writeDrillError(w http.ResponseWriter, what string, err error) {
	var busy *drill.BusyError
	var refusal *DrillRefusedError
	switch {
	case errors.Is(err, ErrNoDrill):
		p := Problem{Type: TypeUnknownDrill, Status: http.StatusNotFound, Detail: "There is no such drill.", Drills: a.drillNames()}
		if len(p.Drills) > 0 {
			p.Detail = truncateDetail("There is no such drill. There are: " + strings.Join(p.Drills, ", ") + ".")
		}
		WriteProblem(w, p)
	case errors.Is(err, drill.ErrNoRun):
		WriteProblem(w, Problem{Type: TypeUnknownRun, Status: http.StatusNotFound, Detail: "There is no such run; runs that ended long ago are not kept."})
	case errors.Is(err, drill.ErrFrozen):
		WriteProblem(w, Problem{Type: TypeDrillsFrozen, Status: http.StatusConflict, Detail: "Drills are frozen, none is begun until headgate drill unfreeze."})
	case errors.As(err, &busy):
		WriteProblem(w, Problem{Type: TypeDrillBusy, Status: http.StatusConflict, Run: busy.Run, Detail: truncateDetail(capitalizeClause(busy.Error())) + "; only one runs at a time."})
	case errors.As(err, &refusal):
		WriteProblem(w, Problem{Type: TypeDrillRefused, Status: http.StatusConflict, Detail: truncateDetail(capitalizeClause(refusal.Reason)) + "."})
	case errors.Is(err, ErrUnknownCursor):
		WriteProblem(w, *badCursor())
	default:
		a.log.Error("a request about drills failed", "request", what, "error", err)
		WriteProblem(w, Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record of drills cannot be used just now; the log says why."})
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

// capitalizeClause makes a clause the beginning of a sentence. The name of a setting stays
// as it is.
func capitalizeClause(s string) string {
	if word, _, _ := strings.Cut(s, " "); strings.ContainsAny(word, "_.:") {
		return s
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
