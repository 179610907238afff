package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// modeConfirmView is the page that asks to confirm a change of mode.
type modeConfirmView struct {
	Pool     string // empty: all pools
	Mode     string // as the API has it
	Verb     string
	Expected string // the mode that all of them are in; empty: they differ
	Changes  []plannedModeChange
	NoOp     bool // every pool is in that mode
	Overdue  int
	MayDrop  bool
	MaxLen   int
}

// plannedModeChange is what would be done to one pool.
type plannedModeChange struct {
	control.PoolChange
	FromLabel, ToLabel modeLabel
}

// actionName is the button of a mode, false if there is none.
func actionName(mode string) (verb string, ok bool) {
	verb, ok = map[string]string{
		"passthrough": "Roll back", api.ModeRestore: "Restore", "observe": "Only observe", "enforce": "Enforce",
	}[mode]
	return verb, ok
}

// actionNameOrEmpty is the button of a mode.
func actionNameOrEmpty(mode string) string {
	verb, _ := actionName(mode)
	return verb
}

func (p *Pages) confirmMode(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	mode, pool := q.Get("to"), q.Get("pool")
	verb, ok := actionName(mode)
	if !ok {
		p.showUnknownAction(w, r, v, "A mode is passthrough, restore, observe or enforce.")
		return
	}
	plan, err := api.SetMode(r.Context(), p.control, v.actor(), pool, api.ModeRequest{Mode: mode, DryRun: true})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := modeConfirmView{Pool: pool, Mode: mode, Verb: verb, NoOp: true, MayDrop: mode != admission.PassThrough.String(), MaxLen: api.MaxReason}
	for _, c := range plan.Changes {
		view.Changes = append(view.Changes, plannedModeChange{c, modeLabelOf(c.From.String()), modeLabelOf(c.To.String())})
		view.NoOp = view.NoOp && c.From == c.To
		view.Overdue += c.Overdue
	}
	if !slices.ContainsFunc(plan.Changes, func(c control.PoolChange) bool { return c.From != plan.Changes[0].From }) {
		view.Expected = plan.Changes[0].From.String()
	}
	p.show(w, r, v, http.StatusOK, page{Title: poolTitle(verb, pool), NavPath: "/", Body: view}, "mode")
}

func (p *Pages) changeMode(w http.ResponseWriter, r *http.Request, v viewer) {
	pool := r.PostFormValue("pool")
	_, err := api.SetMode(r.Context(), p.control, v.actor(), pool, api.ModeRequest{
		Mode: r.PostFormValue("to"), Reason: strings.TrimSpace(r.PostFormValue("reason")),
		Expected: r.PostFormValue("expected"), DropOverdue: r.PostFormValue("drop_overdue") != "",
	})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/?"+url.Values{"done": {"mode:" + pool}}.Encode(), http.StatusSeeOther)
}

// pauseView is the page that asks to confirm a pause, or its end.
type pauseView struct {
	Do        string // pause or resume
	Pool      string // empty: all pools
	Message   string // what would be done
	Durations []choice
	MaxLen    int
}

// pauseActionName is the button of an action on pauses, false if there is none.
func pauseActionName(do string) (string, bool) {
	verb, ok := map[string]string{control.ActionPause: "Pause", control.ActionResume: "Resume"}[do]
	return verb, ok
}

const pauseActions = "A pool can be paused and resumed."

func (p *Pages) confirmPause(w http.ResponseWriter, r *http.Request, v viewer) {
	view := pauseView{Do: r.URL.Query().Get("do"), Pool: r.URL.Query().Get("pool"), MaxLen: api.MaxReason}
	verb, ok := pauseActionName(view.Do)
	if !ok {
		p.showUnknownAction(w, r, v, pauseActions)
		return
	}
	plan, err := api.DoAction(r.Context(), p.control, v.actor(), view.Do, api.ActionRequest{Pool: view.Pool, DryRun: true})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view.Message = plan.Message
	if view.Do == control.ActionPause {
		view.Durations = []choice{{"1m", "1 minute"}, {"5m", "5 minutes"}, {"15m", "15 minutes"}}
	}
	p.show(w, r, v, http.StatusOK, page{Title: poolTitle(verb, view.Pool), NavPath: "/", Body: view}, "pause")
}

func (p *Pages) pause(w http.ResponseWriter, r *http.Request, v viewer) {
	do, pool := r.PostFormValue("do"), r.PostFormValue("pool")
	if _, ok := pauseActionName(do); !ok {
		p.showUnknownAction(w, r, v, pauseActions)
		return
	}
	request := api.ActionRequest{Pool: pool, For: r.PostFormValue("for"), Reason: strings.TrimSpace(r.PostFormValue("reason"))}
	if _, err := api.DoAction(r.Context(), p.control, v.actor(), do, request); err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/?"+url.Values{"done": {do + ":" + pool}}.Encode(), http.StatusSeeOther)
}

func (p *Pages) showUnknownAction(w http.ResponseWriter, r *http.Request, v viewer, detail string) {
	p.showError(w, r, v, errorPage{http.StatusBadRequest, "There is no such action", detail, "Use the buttons on the overview."})
}

func poolTitle(verb, pool string) string {
	if pool == "" {
		return verb + " all pools"
	}
	return fmt.Sprintf("%s pool %s", verb, pool)
}
