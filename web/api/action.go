package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// Actions are what can be done. *control.Registry has them.
type Actions interface {
	Acts() []control.Act
	// Do carries a call out, or says what it would do. With any error nothing was
	// changed.
	Do(ctx context.Context, now time.Time, c control.Call) (control.Outcome, error)
}

// ActionList is the reply to GET /api/v1/actions.
type ActionList struct {
	Items []Action `json:"items"`
	Next  string   `json:"next"` // always empty: there are few
}

// Action is one that can be done.
type Action struct {
	Name   string   `json:"name"`
	Does   string   `json:"does"`   // in one sentence
	Undo   string   `json:"undo"`   // how it is taken back
	Verify string   `json:"verify"` // what is read back afterwards
	Takes  []string `json:"takes"`  // the keys of ActionRequest that it takes, besides reason and dry_run
}

// ActionRequest is the body of POST /api/v1/actions/{name}.
type ActionRequest struct {
	Pool        string `json:"pool,omitempty"` // empty: all
	Incident    string `json:"incident,omitempty"`
	Rule        string `json:"rule,omitempty"`
	For         string `json:"for,omitempty"` // see ParseSpan; empty: the usual time
	Reason      string `json:"reason,omitempty"`
	Expected    string `json:"expected,omitempty"` // refuse unless every pool is in this mode now
	DropOverdue bool   `json:"drop_overdue,omitempty"`
	DryRun      bool   `json:"dry_run,omitempty"`
}

// ActionReply says what was done, or would be.
type ActionReply struct {
	Action   string   `json:"action"`
	DryRun   bool     `json:"dry_run"`
	Words    string   `json:"words"`
	Recorded bool     `json:"recorded"` // false: a restart would forget it; or a dry run
	Verified bool     `json:"verified"` // reading back found what was asked for; false in a dry run
	Found    string   `json:"found"`    // what reading back found
	Undo     []string `json:"undo"`     // commands that take it back
	Until    *string  `json:"until"`    // when it ends by itself; null: it does not
	Changes  []Change `json:"changes"`  // of modes
}

func (a *Admin) routeActions() {
	a.route("/api/v1/actions", methods{http.MethodGet: a.listActions})
	a.route("/api/v1/actions/{name}", methods{http.MethodPost: a.act})
}

func (a *Admin) listActions(w http.ResponseWriter, r *http.Request) {
	if _, p := parameters(r); p != nil {
		WriteProblem(w, *p)
		return
	}
	list := ActionList{Items: []Action{}}
	for _, act := range a.acts() {
		list.Items = append(list.Items, Action{Name: act.Name, Does: act.Does, Undo: act.Undo, Verify: act.Verify, Takes: act.Takes})
	}
	writeJSON(w, http.StatusOK, "application/json", list)
}

func (a *Admin) acts() []control.Act {
	if a.actions == nil {
		return nil
	}
	return a.actions.Acts()
}

func (a *Admin) act(w http.ResponseWriter, r *http.Request) {
	c, p := readCall(w, r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	if a.actions == nil {
		WriteProblem(w, Problem{Type: TypeUnknownAction, Status: http.StatusNotFound, Detail: "There are no actions here."})
		return
	}
	if !slices.ContainsFunc(a.acts(), func(act control.Act) bool { return act.Name == c.Name }) {
		WriteProblem(w, Problem{Type: TypeUnknownAction, Status: http.StatusNotFound,
			Detail: "There is no action " + quoted(c.Name) + "; GET /api/v1/actions lists them."})
		return
	}
	c.Via = Via(r.Context())
	ctx, cancel := context.WithTimeout(r.Context(), watchTimeout)
	defer cancel()
	out, err := a.actions.Do(ctx, time.Now(), c)
	if err != nil {
		a.refuseCall(w, c, err)
		return
	}
	if out.Acked != nil && !out.Acked.Won {
		WriteProblem(w, otherAck(*out.Acked))
		return
	}
	writeJSON(w, http.StatusOK, "application/json", actionReply(c, out))
}

func actionReply(c control.Call, out control.Outcome) ActionReply {
	reply := ActionReply{
		Action: c.Name, DryRun: c.DryRun, Words: out.Words, Recorded: out.Recorded, Verified: out.Verified, Found: out.Found,
		Undo: out.Undo, Until: stampOrNull(out.Until), Changes: []Change{},
	}
	if reply.Undo == nil {
		reply.Undo = []string{}
	}
	for _, change := range out.Changes {
		reply.Changes = append(reply.Changes, ChangeOf(change))
	}
	return reply
}

// refuseCall is where the errors of calls become statuses.
func (a *Admin) refuseCall(w http.ResponseWriter, c control.Call, err error) {
	switch {
	case errors.Is(err, control.ErrNoPool), errors.Is(err, control.ErrUnexpected) && c.Expected != nil:
		a.refuseOrder(w, control.Order{Action: control.Action(c.Name), Pool: c.Pool, Expected: c.Expected}, err)
	case errors.Is(err, control.ErrCall):
		WriteProblem(w, *badRequest(http.StatusBadRequest, cutText(err.Error())+"."))
	case errors.Is(err, control.ErrNotPaused):
		WriteProblem(w, Problem{Status: http.StatusConflict, Detail: "Nothing was changed: " + cutText(err.Error()) + "."})
	case errors.Is(err, control.ErrNotWatching):
		WriteProblem(w, Problem{Type: TypeNotWatching, Status: http.StatusNotFound, Detail: "There are no rules and no incidents here."})
	default:
		a.refuseWatch(w, c.Name, err)
	}
}

// readCall turns a request into a call.
func readCall(w http.ResponseWriter, r *http.Request) (c control.Call, p *Problem) {
	if _, p := parameters(r); p != nil {
		return c, p
	}
	var m ActionRequest
	if p := readObject(w, r, map[string]any{
		"pool": &m.Pool, "incident": &m.Incident, "rule": &m.Rule, "for": &m.For, "reason": &m.Reason, "expected": &m.Expected,
		"drop_overdue": &m.DropOverdue, "dry_run": &m.DryRun,
	}); p != nil {
		return c, p
	}
	c, err := m.call()
	if err != nil {
		return c, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	c.Name = r.PathValue("name")
	c.Actor, p = actor(r)
	return c, p
}

func (m *ActionRequest) call() (control.Call, error) {
	c := control.Call{
		Pool: m.Pool, Incident: m.Incident, Rule: m.Rule, Reason: m.Reason, DropOverdue: m.DropOverdue, DryRun: m.DryRun, Via: control.ViaAPI,
	}
	for _, f := range []struct {
		name, text string
		most       int
	}{{"pool", m.Pool, maxKey}, {"incident", m.Incident, maxKey}, {"rule", m.Rule, maxKey}, {"reason", m.Reason, MaxReason}} {
		if err := line(f.name, f.text, f.most); err != nil {
			return c, err
		}
	}
	if m.For != "" {
		length, err := ParseSpan(m.For)
		if err != nil {
			return c, errors.New("for " + err.Error())
		}
		c.For = length
	}
	if m.Expected != "" {
		mode, err := admission.ParseMode(m.Expected)
		if err != nil {
			return c, errors.New("expected must be enforce, observe or passthrough")
		}
		c.Expected = &mode
	}
	return c, nil
}
