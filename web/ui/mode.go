package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"headgate/web/api"
)

// modeConfirmView is the page that asks whether an order is meant.
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

// plannedModeChange is what an order would do to one pool.
type plannedModeChange struct {
	api.ModeChange
	FromLabel, ToLabel modeLabel
}

// verbs are the buttons that give orders, by the mode that they ask for.
func actionName(mode string) (verb string, ok bool) {
	verb, ok = map[string]string{
		"passthrough": "Roll back", api.ModeRestore: "Restore", "observe": "Only observe", "enforce": "Enforce",
	}[mode]
	return verb, ok
}

func (p *Pages) confirmMode(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	mode, pool := q.Get("to"), q.Get("pool")
	verb, ok := actionName(mode)
	if !ok {
		p.showError(w, r, v, errorPage{http.StatusBadRequest, "There is no such order", "A mode is passthrough, restore, observe or enforce.",
			"Use the buttons on the overview."})
		return
	}
	plan, err := p.setMode(r, v, pool, api.ModeRequest{Mode: mode, DryRun: true})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := modeConfirmView{Pool: pool, Mode: mode, Verb: verb, NoOp: true, MayDrop: mode != "passthrough", MaxLen: api.MaxReason}
	for _, c := range plan.Changes {
		view.Changes = append(view.Changes, plannedModeChange{c, modeLabelOf(c.From), modeLabelOf(c.To)})
		view.NoOp = view.NoOp && c.From == c.To
		view.Overdue += c.Overdue
	}
	if !slices.ContainsFunc(plan.Changes, func(c api.ModeChange) bool { return c.From != plan.Changes[0].From }) {
		view.Expected = plan.Changes[0].From
	}
	title := verb + " all pools"
	if pool != "" {
		title = verb + " pool " + pool
	}
	p.show(w, r, v, http.StatusOK, page{Title: title, NavPath: "/", Body: view}, "mode")
}

// setMode gives an order. The name of a pool is checked here: in a path it might
// mean another.
func (p *Pages) setMode(r *http.Request, v viewer, pool string, m api.ModeRequest) (api.ModeReply, error) {
	if pool != "" && api.CheckPool(pool) != nil {
		return api.ModeReply{}, &api.Problem{Type: api.TypeUnknownPool, Status: http.StatusNotFound, Detail: "It may have been removed from the settings."}
	}
	return p.client(v).SetMode(r.Context(), pool, m)
}

func (p *Pages) changeMode(w http.ResponseWriter, r *http.Request, v viewer) {
	pool := r.PostFormValue("pool")
	_, err := p.setMode(r, v, pool, api.ModeRequest{
		Mode: r.PostFormValue("to"), Reason: strings.TrimSpace(r.PostFormValue("reason")),
		Expected: r.PostFormValue("expected"), DropOverdue: r.PostFormValue("drop_overdue") != "",
	})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/?"+url.Values{"done": {"mode:" + pool}}.Encode(), http.StatusSeeOther)
}

// actionNameOrEmpty is the button of a mode.
func actionNameOrEmpty(mode string) string {
	verb, _ := actionName(mode)
	return verb
}
