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
	Acts() []control.ActionDef
	// Do carries a call out, or says what it would do. With any error nothing was
	// changed.
	Do(ctx context.Context, now time.Time, c control.ActionRequest) (control.ActionResult, error)
}

// ActionList is the reply to GET /api/v1/actions.
type ActionList struct {
	Items []Action `json:"items"`
	Next  string   `json:"next"` // always empty: there are few
}

// Action is one that can be done.
type Action struct {
	Name        string   `json:"name"`
	Description string   `json:"does"`   // in one sentence
	Undo        string   `json:"undo"`   // how it is taken back
	Verify      string   `json:"verify"` // what is read back afterwards
	Parameters  []string `json:"takes"`  // the keys of ActionRequest that it takes, besides reason and dry_run
}

// ActionRequest is the body of POST /api/v1/actions/{name}.
type ActionRequest struct {
	Pool        string `json:"pool,omitempty"` // empty: all
	Incident    string `json:"incident,omitempty"`
	Rule        string `json:"rule,omitempty"`
	For         string `json:"for,omitempty"` // see ParseDuration; empty: the usual time
	Reason      string `json:"reason,omitempty"`
	Expected    string `json:"expected,omitempty"` // refuse unless every pool is in this mode now
	DropOverdue bool   `json:"drop_overdue,omitempty"`
	DryRun      bool   `json:"dry_run,omitempty"`
}

// ActionReply says what was done, or would be.
type ActionReply struct {
	Action       string   `json:"action"`
	DryRun       bool     `json:"dry_run"`
	Message      string   `json:"words"`
	Recorded     bool     `json:"recorded"` // false: a restart would forget it; or a dry run
	Verified     bool     `json:"verified"` // reading back found what was asked for; false in a dry run
	Observed     string   `json:"found"`    // what reading back found
	UndoCommands []string `json:"undo"`     // commands that take it back
	Until        *string  `json:"until"`    // when it ends by itself; null: it does not
	Changes      []Change `json:"changes"`  // of modes
}

func (a *Admin) routeActions() {
	a.route("/api/v1/actions", methodHandlers{http.MethodGet: a.listActions})
	a.route("/api/v1/actions/{name}", methodHandlers{http.MethodPost: a.doAction})
}

func (a *Admin) listActions(w http.ResponseWriter, r *http.Request) {
	if _, p := parseQuery(r); p != nil {
		WriteProblem(w, *p)
		return
	}
	list := ActionList{Items: []Action{}}
	for _, act := range a.acts() {
		list.Items = append(list.Items, Action{Name: act.Name, Description: act.Does, Undo: act.Undo, Verify: act.Verify, Parameters: act.Takes})
	}
	writeJSON(w, http.StatusOK, "application/json", list)
}

func (a *Admin) acts() []control.ActionDef {
	if a.actions == nil {
		return nil
	}
	return a.actions.Acts()
}

func (a *Admin) doAction(w http.ResponseWriter, r *http.Request) {
	c, p := decodeActionRequest(w, r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	if a.actions == nil {
		WriteProblem(w, Problem{Type: TypeUnknownAction, Status: http.StatusNotFound, Detail: "There are no actions here."})
		return
	}
	if !slices.ContainsFunc(a.acts(), func(act control.ActionDef) bool { return act.Name == c.Name }) {
		WriteProblem(w, Problem{Type: TypeUnknownAction, Status: http.StatusNotFound,
			Detail: "There is no action " + quoteName(c.Name) + "; GET /api/v1/actions lists them."})
		return
	}
	c.Via = ViaFromContext(r.Context())
	ctx, cancel := context.WithTimeout(r.Context(), engineTimeout)
	defer cancel()
	out, err := a.actions.Do(ctx, time.Now(), c)
	if err != nil {
		a.writeActionError(w, c, err)
		return
	}
	if out.Acked != nil && !out.Acked.Applied {
		WriteProblem(w, ackConflict(*out.Acked))
		return
	}
	writeJSON(w, http.StatusOK, "application/json", actionReply(c, out))
}

func actionReply(c control.ActionRequest, out control.ActionResult) ActionReply {
	reply := ActionReply{
		Action: c.Name, DryRun: c.DryRun, Message: out.Words, Recorded: out.Recorded, Verified: out.Verified, Observed: out.Found,
		UndoCommands: out.Undo, Until: timeOrNull(out.Until), Changes: []Change{},
	}
	if reply.UndoCommands == nil {
		reply.UndoCommands = []string{}
	}
	for _, change := range out.Changes {
		reply.Changes = append(reply.Changes, ChangeOf(change))
	}
	return reply
}

// writeActionError is where the errors of calls become statuses.
func (a *Admin) writeActionError(w http.ResponseWriter, c control.ActionRequest, err error) {
	switch {
	case errors.Is(err, control.ErrNoPool), errors.Is(err, control.ErrModeMismatch) && c.Expected != nil:
		a.writeModeError(w, control.ModeRequest{Action: control.ModeAction(c.Name), Pool: c.Pool, Expected: c.Expected}, err)
	case errors.Is(err, control.ErrInvalidAction):
		WriteProblem(w, *badRequest(http.StatusBadRequest, truncateDetail(err.Error())+"."))
	case errors.Is(err, control.ErrNotPaused):
		WriteProblem(w, Problem{Status: http.StatusConflict, Detail: "Nothing was changed: " + truncateDetail(err.Error()) + "."})
	case errors.Is(err, control.ErrNoRuleEngine):
		WriteProblem(w, Problem{Type: TypeMonitoringDisabled, Status: http.StatusNotFound, Detail: "There are no rules and no incidents here."})
	default:
		a.writeEngineError(w, c.Name, err)
	}
}

// decodeActionRequest turns a request into a call.
func decodeActionRequest(w http.ResponseWriter, r *http.Request) (c control.ActionRequest, p *Problem) {
	if _, p := parseQuery(r); p != nil {
		return c, p
	}
	var m ActionRequest
	if p := decodeObject(w, r, map[string]any{
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
	c.Actor, p = actorOf(r)
	return c, p
}

func (m *ActionRequest) call() (control.ActionRequest, error) {
	c := control.ActionRequest{
		Pool: m.Pool, Incident: m.Incident, Rule: m.Rule, Reason: m.Reason, DropOverdue: m.DropOverdue, DryRun: m.DryRun, Via: control.ViaAPI,
	}
	for _, f := range []struct {
		name, text string
		most       int
	}{{"pool", m.Pool, maxParam}, {"incident", m.Incident, maxParam}, {"rule", m.Rule, maxParam}, {"reason", m.Reason, MaxReason}} {
		if err := checkLine(f.name, f.text, f.most); err != nil {
			return c, err
		}
	}
	if m.For != "" {
		length, err := ParseDuration(m.For)
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
