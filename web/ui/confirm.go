package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// modeConfirmView is the page that asks to confirm a change of mode.
type modeConfirmView struct {
	Pool     string // empty: all pools
	Mode     string // as the API has it
	Verb     string
	Expected string // the mode that all of them are in; empty: they differ
	Changes  []control.PoolChange
	NoOp     bool // every pool is in that mode
	Overdue  int
	MayDrop  bool
	MaxLen   int
}

// actionName is the button of a mode, empty if there is none.
func actionName(mode string) string {
	return map[string]string{
		"passthrough": "Roll back", api.ModeRestore: "Restore", "observe": "Only observe", "enforce": "Enforce",
	}[mode]
}

// confirmMode shows a dry run of a change of mode. The form carries the mode that was shown, so that a change in between
// makes the action fail instead of applying to another state.
func (p *Pages) confirmMode(w http.ResponseWriter, r *http.Request, v viewer) error {
	q := r.URL.Query()
	mode, pool := q.Get("to"), q.Get("pool")
	verb := actionName(mode)
	if verb == "" {
		return unknownAction("A mode is passthrough, restore, observe or enforce.")
	}
	plan, err := api.SetMode(r.Context(), p.control, v.actor(), pool, api.ModeRequest{Mode: mode, DryRun: true})
	if err != nil {
		return err
	}
	view := modeConfirmView{
		Pool: pool, Mode: mode, Verb: verb, Changes: plan.Changes, NoOp: true, MayDrop: mode != admission.PassThrough.String(),
		MaxLen: api.MaxReason,
	}
	for _, c := range plan.Changes {
		view.NoOp = view.NoOp && c.From == c.To
		view.Overdue += c.Overdue
	}
	if !slices.ContainsFunc(plan.Changes, func(c control.PoolChange) bool { return c.From != plan.Changes[0].From }) {
		view.Expected = plan.Changes[0].From.String()
	}
	return p.show(w, r, v, http.StatusOK, page{Title: poolTitle(verb, pool), NavPath: "/", Body: view}, "mode")
}

func (p *Pages) changeMode(w http.ResponseWriter, r *http.Request, v viewer) error {
	pool := r.PostFormValue("pool")
	_, err := api.SetMode(r.Context(), p.control, v.actor(), pool, api.ModeRequest{
		Mode: r.PostFormValue("to"), Reason: strings.TrimSpace(r.PostFormValue("reason")),
		Expected: r.PostFormValue("expected"), DropOverdue: r.PostFormValue("drop_overdue") != "",
	})
	return seeOther(w, r, "/?"+url.Values{"done": {"mode:" + pool}}.Encode(), err)
}

// pauseView is the page that asks to confirm a pause, or its end.
type pauseView struct {
	Do        string // pause or resume
	Pool      string // empty: all pools
	Message   string // what would be done
	Durations []choice
	MaxLen    int
}

// pauseActionName is the button of an action on pauses, empty if there is none.
func pauseActionName(do string) string {
	return map[string]string{control.ActionPause: "Pause", control.ActionResume: "Resume"}[do]
}

const pauseActions = "A pool can be paused and resumed."

// confirmPause shows a dry run of a pause, or of its end.
func (p *Pages) confirmPause(w http.ResponseWriter, r *http.Request, v viewer) error {
	view := pauseView{Do: r.URL.Query().Get("do"), Pool: r.URL.Query().Get("pool"), MaxLen: api.MaxReason}
	verb := pauseActionName(view.Do)
	if verb == "" {
		return unknownAction(pauseActions)
	}
	plan, err := api.DoAction(r.Context(), p.control, v.actor(), view.Do, api.ActionRequest{Pool: view.Pool, DryRun: true})
	if err != nil {
		return err
	}
	view.Message = plan.Message
	if view.Do == control.ActionPause {
		view.Durations = []choice{{"1m", "1 minute"}, {"5m", "5 minutes"}, {"15m", "15 minutes"}}
	}
	return p.show(w, r, v, http.StatusOK, page{Title: poolTitle(verb, view.Pool), NavPath: "/", Body: view}, "pause")
}

// pause accepts pause and resume only: other actions have their own pages with their own checks.
func (p *Pages) pause(w http.ResponseWriter, r *http.Request, v viewer) error {
	do, pool := r.PostFormValue("do"), r.PostFormValue("pool")
	if pauseActionName(do) == "" {
		return unknownAction(pauseActions)
	}
	request := api.ActionRequest{Pool: pool, For: r.PostFormValue("for"), Reason: strings.TrimSpace(r.PostFormValue("reason"))}
	_, err := api.DoAction(r.Context(), p.control, v.actor(), do, request)
	return seeOther(w, r, "/?"+url.Values{"done": {do + ":" + pool}}.Encode(), err)
}

func unknownAction(detail string) error {
	return errorPage{http.StatusBadRequest, "There is no such action", detail, "Use the buttons on the overview."}
}

func poolTitle(verb, pool string) string {
	if pool == "" {
		return verb + " all pools"
	}
	return fmt.Sprintf("%s pool %s", verb, pool)
}

// startView is the page that says what a run would do, and asks whether it is meant.
type startView struct {
	api.DrillPlanView
	WallTime time.Duration
	Speeds   []choice
	MaxLen   int
}

// parseSpeed is the speed in the address; 0: as the drill has it. The API refuses what is out of range.
func parseSpeed(text string) (float64, error) {
	speed, err := strconv.ParseFloat(cmp.Or(text, "0"), 64)
	if err != nil {
		return 0, badRequest("speed must be a number from 1 to " + strconv.Itoa(api.MaxSpeed) + ".")
	}
	return speed, nil
}

func badRequest(detail string) error {
	return &api.Problem{Type: api.TypeBadRequest, Status: http.StatusBadRequest, Detail: detail}
}

func (p *Pages) confirmStart(w http.ResponseWriter, r *http.Request, v viewer) error {
	q := r.URL.Query()
	speed, err := parseSpeed(q.Get("speed"))
	if err != nil {
		return err
	}
	reply, err := p.admin.RunDrill(r.Context(), v.actor(), q.Get("drill"), api.DrillRunRequest{Speed: speed, DryRun: true})
	if err != nil {
		return err
	}
	view := startView{
		DrillPlanView: reply.Plan, WallTime: time.Duration(reply.Plan.WallTimeS * float64(time.Second)), Speeds: speeds(reply.Plan),
		MaxLen: api.MaxReason,
	}
	return p.show(w, r, v, http.StatusOK, page{Title: "Run " + reply.Plan.Name, NavPath: drillsPath, Body: view}, "start")
}

// speeds are the speeds to choose from, and the one of the plan. Only a twin can be
// faster than the clock.
func speeds(plan api.DrillPlanView) (all []choice) {
	if plan.Target == "live" {
		return nil
	}
	some := []float64{1, 5, 10, 20}
	if !slices.Contains(some, plan.Speed) {
		some = append(some, plan.Speed)
		slices.Sort(some)
	}
	for _, s := range some {
		text := strconv.FormatFloat(s, 'f', -1, 64)
		all = append(all, choice{text, "× " + text + ": " + format.Text.Duration(time.Duration(plan.ScenarioS/s*float64(time.Second)))})
	}
	return all
}

// SpeedText is the speed of the plan, as its choice has it.
func (v startView) SpeedText() string { return strconv.FormatFloat(v.Speed, 'f', -1, 64) }

// start leads to the page of the run that it started.
func (p *Pages) start(w http.ResponseWriter, r *http.Request, v viewer) error {
	speed, err := parseSpeed(r.PostFormValue("speed"))
	if err != nil {
		return err
	}
	reply, err := p.admin.RunDrill(r.Context(), v.actor(), r.PostFormValue("drill"), api.DrillRunRequest{
		Speed: speed, Reason: strings.TrimSpace(r.PostFormValue("reason")),
	})
	to := drillsPath
	if reply.Run != nil {
		to += "/runs/" + url.PathEscape(*reply.Run)
	}
	return seeOther(w, r, to, err)
}

// drillConfirmView is the page that asks to confirm an action on drills.
type drillConfirmView struct {
	Do     string // abort, freeze or unfreeze
	To     string // where the form is sent
	Back   string
	Run    *drill.Run // of an abort; of a freeze: what runs now, nil if nothing does
	Freeze api.DrillFreeze
	MaxLen int
	NoOp   bool // there is nothing to do
}

func (p *Pages) confirmAbort(w http.ResponseWriter, r *http.Request, v viewer) error {
	id := r.PathValue("id")
	report, err := p.admin.Run(r.Context(), id, api.NoSeries)
	if err != nil {
		return err
	}
	here := drillsPath + "/runs/" + url.PathEscape(id)
	view := drillConfirmView{Do: "abort", To: here + "/abort", Back: here, Run: &report, MaxLen: api.MaxReason, NoOp: report.Verdict != ""}
	return p.show(w, r, v, http.StatusOK, page{Title: "Abort " + report.Name, NavPath: drillsPath, Body: view}, "drillask")
}

func (p *Pages) abort(w http.ResponseWriter, r *http.Request, v viewer) error {
	run, err := p.admin.AbortRun(r.Context(), v.actor(), r.PathValue("id"), strings.TrimSpace(r.PostFormValue("reason")))
	return seeOther(w, r, drillsPath+"/runs/"+url.PathEscape(run.ID)+"?done=abort", err)
}

func (p *Pages) confirmFreeze(w http.ResponseWriter, r *http.Request, v viewer) error {
	do := r.URL.Query().Get("do")
	title, ok := map[string]string{"freeze": "Freeze drills", "unfreeze": "Unfreeze drills"}[do]
	if !ok {
		return unknownDrillAction()
	}
	list, err := p.admin.Drills(r.Context())
	if err != nil {
		return err
	}
	view := drillConfirmView{Do: do, To: drillsPath + "/freeze", Back: drillsPath + "/definitions", Freeze: list.Freeze, MaxLen: api.MaxReason, NoOp: list.Freeze.Frozen == (do == "freeze")}
	for _, d := range list.Items {
		if d.Running != nil {
			view.Run = &drill.Run{ID: *d.Running, Name: d.Name}
		}
	}
	return p.show(w, r, v, http.StatusOK, page{Title: title, NavPath: drillsPath, Body: view}, "drillask")
}

func (p *Pages) freeze(w http.ResponseWriter, r *http.Request, v viewer) error {
	do := r.PostFormValue("do")
	on, ok := map[string]bool{"freeze": true, "unfreeze": false}[do]
	if !ok {
		return unknownDrillAction()
	}
	_, err := p.admin.FreezeDrills(r.Context(), v.actor(), on, strings.TrimSpace(r.PostFormValue("reason")))
	return seeOther(w, r, drillsPath+"/definitions?done="+do, err)
}

func unknownDrillAction() error {
	return badRequest("Drills can be frozen and unfrozen: use the buttons of the page.")
}
