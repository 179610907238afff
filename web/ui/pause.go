package ui

import (
	"net/http"
	"net/url"
	"strings"

	"headgate/web/api"
)

// pauseView is the page that asks whether a pause, or its end, is meant.
type pauseView struct {
	Do        string // pause or resume
	Pool      string // empty: all pools
	Message   string // what would be done
	Durations []choice
	MaxLen    int
}

// pauseActionName is the button of an action on pauses, false if it is none.
func pauseActionName(do string) (string, bool) {
	verb, ok := map[string]string{"pause": "Pause", "resume": "Resume"}[do]
	return verb, ok
}

func (p *Pages) confirmPause(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	verb, ok := pauseActionName(q.Get("do"))
	if !ok {
		p.showError(w, r, v, errorPage{http.StatusBadRequest, "There is no such order", "A pool can be paused and resumed.", "Use the buttons on the overview."})
		return
	}
	plan, err := p.client(v).DoAction(r.Context(), q.Get("do"), api.ActionRequest{Pool: q.Get("pool"), DryRun: true})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	view := pauseView{Do: q.Get("do"), Pool: q.Get("pool"), Message: plan.Message, MaxLen: api.MaxReason}
	if view.Do == "pause" {
		view.Durations = []choice{{"1m", "1 minute"}, {"5m", "5 minutes"}, {"15m", "15 minutes"}}
	}
	title := verb + " all pools"
	if view.Pool != "" {
		title = verb + " pool " + view.Pool
	}
	p.show(w, r, v, http.StatusOK, page{Title: title, NavPath: "/", Body: view}, "pause")
}

func (p *Pages) pause(w http.ResponseWriter, r *http.Request, v viewer) {
	do, pool := r.PostFormValue("do"), r.PostFormValue("pool")
	if _, ok := pauseActionName(do); !ok {
		p.showError(w, r, v, errorPage{http.StatusBadRequest, "There is no such order", "A pool can be paused and resumed.", "Use the buttons on the overview."})
		return
	}
	_, err := p.client(v).DoAction(r.Context(), do, api.ActionRequest{Pool: pool, For: r.PostFormValue("for"), Reason: strings.TrimSpace(r.PostFormValue("reason"))})
	if err != nil {
		p.showAPIError(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/?"+url.Values{"done": {do + ":" + pool}}.Encode(), http.StatusSeeOther)
}
