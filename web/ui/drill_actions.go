package ui

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// startView is the page that says what a run would do, and asks whether it is meant.
type startView struct {
	api.DrillPlanView
	WallTime time.Duration
	Speeds   []choice
	MaxLen   int
}

// parseSpeed is the speed in the address; 0: as the drill has it. What is none is left
// to the API to refuse.
func parseSpeed(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	speed, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(speed) || math.IsInf(speed, 0) {
		return 0, &api.Problem{Type: api.TypeBadRequest, Status: http.StatusBadRequest, Detail: "speed must be a number from 1 to " + strconv.Itoa(api.MaxSpeed) + "."}
	}
	return speed, nil
}

func (p *Pages) confirmStart(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	speed, err := parseSpeed(q.Get("speed"))
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	reply, err := p.runDrill(r, v, q.Get("drill"), api.DrillRunRequest{Speed: speed, DryRun: true})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := startView{DrillPlanView: reply.Plan, WallTime: time.Duration(reply.Plan.WallTimeS * float64(time.Second)), MaxLen: api.MaxReason}
	view.Speeds = speeds(reply.Plan)
	p.show(w, r, v, http.StatusOK, page{Title: "Run " + reply.Plan.Name, NavPath: drillsPath, Body: view}, "start")
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

// runDrill orders a run. The name is checked here: in a path it might mean another.
func (p *Pages) runDrill(r *http.Request, v viewer, name string, o api.DrillRunRequest) (api.DrillRunReply, error) {
	if api.CheckDrill(name) != nil {
		return api.DrillRunReply{}, &api.Problem{Type: api.TypeUnknownDrill, Status: http.StatusNotFound, Detail: "It may have been removed from the settings."}
	}
	return p.admin.RunDrill(r.Context(), v.actor(), name, o)
}

func (p *Pages) start(w http.ResponseWriter, r *http.Request, v viewer) {
	speed, err := parseSpeed(r.PostFormValue("speed"))
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	reply, err := p.runDrill(r, v, r.PostFormValue("drill"), api.DrillRunRequest{Speed: speed, Reason: strings.TrimSpace(r.PostFormValue("reason"))})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	to := drillsPath
	if reply.Run != nil {
		to += "/runs/" + url.PathEscape(*reply.Run)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// drillConfirmView is the page that asks whether an order about drills is meant.
type drillConfirmView struct {
	Do     string // abort, freeze or unfreeze
	To     string // where the order goes
	Back   string
	Run    *drill.Run // of an abort; of a freeze: what runs now, nil if nothing does
	Freeze api.DrillFreeze
	MaxLen int
	NoOp   bool // there is nothing to do
}

func (p *Pages) confirmAbort(w http.ResponseWriter, r *http.Request, v viewer) {
	id := r.PathValue("id")
	report, err := p.admin.Run(r.Context(), id, api.NoSeries)
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	here := drillsPath + "/runs/" + url.PathEscape(id)
	view := drillConfirmView{Do: "abort", To: here + "/abort", Back: here, Run: &report, MaxLen: api.MaxReason, NoOp: report.Verdict != ""}
	p.show(w, r, v, http.StatusOK, page{Title: "Abort " + report.Name, NavPath: drillsPath, Body: view}, "drillask")
}

func (p *Pages) abort(w http.ResponseWriter, r *http.Request, v viewer) {
	run, err := p.admin.AbortRun(r.Context(), v.actor(), r.PathValue("id"), strings.TrimSpace(r.PostFormValue("reason")))
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	http.Redirect(w, r, drillsPath+"/runs/"+url.PathEscape(run.ID)+"?done=abort", http.StatusSeeOther)
}

func (p *Pages) confirmFreeze(w http.ResponseWriter, r *http.Request, v viewer) {
	do := r.URL.Query().Get("do")
	title, ok := map[string]string{"freeze": "Freeze drills", "unfreeze": "Unfreeze drills"}[do]
	if !ok {
		p.showAPIError(w, r, v, unknownDrillAction())
		return
	}
	list, err := p.admin.Drills(r.Context())
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := drillConfirmView{Do: do, To: drillsPath + "/freeze", Back: drillsPath + "/definitions", Freeze: list.Freeze, MaxLen: api.MaxReason, NoOp: list.Freeze.Frozen == (do == "freeze")}
	for _, d := range list.Items {
		if d.Running != nil {
			view.Run = &drill.Run{ID: *d.Running, Name: d.Name}
		}
	}
	p.show(w, r, v, http.StatusOK, page{Title: title, NavPath: drillsPath, Body: view}, "drillask")
}

func (p *Pages) freeze(w http.ResponseWriter, r *http.Request, v viewer) {
	do, reason := r.PostFormValue("do"), strings.TrimSpace(r.PostFormValue("reason"))
	var err error
	switch do {
	case "freeze":
		_, err = p.admin.FreezeDrills(r.Context(), v.actor(), true, reason)
	case "unfreeze":
		_, err = p.admin.FreezeDrills(r.Context(), v.actor(), false, reason)
	default:
		err = unknownDrillAction()
	}
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	http.Redirect(w, r, drillsPath+"/definitions?done="+do, http.StatusSeeOther)
}

func unknownDrillAction() error {
	return &api.Problem{Type: api.TypeBadRequest, Status: http.StatusBadRequest, Detail: "Drills can be frozen and unfrozen: use the buttons of the page."}
}
