package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// ActorHeader names who sends a request. Without it the actor is "api".
const ActorHeader = "Headgate-Actor"

// Bounds of what goes into the record, in characters.
const (
	MaxActor  = 100
	MaxReason = 500
)

// ModeRestore asks for the mode before: from passthrough to the one before the rollback, from observe to enforce.
const ModeRestore = "restore"

// actionTimeout bounds an action: the engine takes commands between two steps, and a change waits up to 2 s for its
// record.
const actionTimeout = 3 * time.Second

// ModeRequest is the body of PUT /api/v1/mode and /api/v1/pools/{pool}/mode.
type ModeRequest struct {
	Mode        string `json:"mode"`                   // enforce, observe, passthrough or restore
	Reason      string `json:"reason"`                 // for the record; may be empty
	Expected    string `json:"expected,omitempty"`     // refuse unless every pool is in this mode now
	DropOverdue bool   `json:"drop_overdue,omitempty"` // reject queued tasks that can no longer finish in time
	DryRun      bool   `json:"dry_run,omitempty"`      // say what would change, change nothing
}

// ModeReply says what a ModeRequest did.
type ModeReply struct {
	DryRun   bool                 `json:"dry_run"`
	Recorded bool                 `json:"recorded"` // false: applied, but a restart would forget it; or a dry run
	Changes  []control.PoolChange `json:"changes"`
}

// ActionList is the reply to GET /api/v1/actions.
type ActionList struct {
	Items []Action `json:"items"`
	Next  string   `json:"next"` // always empty: there are few
}

// Action is an action that can be requested by name.
type Action struct {
	Name        string   `json:"name"`
	Description string   `json:"description"` // in one sentence
	Undo        string   `json:"undo"`        // how it is undone
	Verify      string   `json:"verify"`      // what is read back afterwards
	Parameters  []string `json:"parameters"`  // the keys of ActionRequest that it takes, besides reason and dry_run

	do actionFunc
}

// actionFunc carries out an action.
type actionFunc func(context.Context, *control.Service, control.Actor, actionInput) (control.Result, error)

// act is the action that a method of the service carries out, with the options that it takes of a request.
func act[O any](do func(*control.Service, context.Context, control.Actor, O) (control.Result, error), options func(actionInput) O) actionFunc {
	return func(ctx context.Context, s *control.Service, by control.Actor, in actionInput) (control.Result, error) {
		return do(s, ctx, by, options(in))
	}
}

// ActionRequest is the body of POST /api/v1/actions/{name}.
type ActionRequest struct {
	Pool        string `json:"pool,omitempty"` // empty: all
	Incident    string `json:"incident,omitempty"`
	Rule        string `json:"rule,omitempty"`
	For         string `json:"for,omitempty"` // see ParseDuration; empty: the default duration
	Reason      string `json:"reason,omitempty"`
	Expected    string `json:"expected,omitempty"` // refuse unless every pool is in this mode now
	DropOverdue bool   `json:"drop_overdue,omitempty"`
	DryRun      bool   `json:"dry_run,omitempty"`
}

// ActionReply says what an action did, or would do.
type ActionReply struct {
	Action string `json:"action"`
	DryRun bool   `json:"dry_run"`
	control.Result
}

// actionInput is an ActionRequest that was read.
type actionInput struct {
	ActionRequest
	length   time.Duration
	expected *admission.Mode
}

func (in actionInput) mode() control.ModeOptions {
	return control.ModeOptions{Pool: in.Pool, Expected: in.expected, DropOverdue: in.DropOverdue, Reason: in.Reason, DryRun: in.DryRun}
}

func (in actionInput) pause() control.PauseOptions {
	return control.PauseOptions{Pool: in.Pool, For: in.length, Reason: in.Reason, DryRun: in.DryRun}
}

func (in actionInput) ack() control.AckOptions {
	return control.AckOptions{Incident: in.Incident, For: in.length, Reason: in.Reason, DryRun: in.DryRun}
}

func (in actionInput) silence() control.SilenceOptions {
	return control.SilenceOptions{Rule: in.Rule, Pool: in.Pool, For: in.length, Reason: in.Reason, DryRun: in.DryRun}
}

// actions are all actions by name, in a fixed order.
func actions() []Action {
	const verifyMode = "the mode of each gate"
	modeParameters := []string{"pool", "expected", "drop_overdue"}
	return []Action{
		{
			Name: control.ActionRollback, Undo: "restore", Verify: verifyMode, Parameters: []string{"pool", "expected"},
			Description: "Disables admission control (passthrough): nothing is refused; running and queued tasks are not touched.",
			do:          act((*control.Service).Rollback, actionInput.mode),
		},
		{
			Name: control.ActionRestore, Undo: "rollback, or observe", Verify: verifyMode, Parameters: modeParameters,
			Description: "Re-enables admission control: from passthrough to the mode before, from observe to enforce.",
			do:          act((*control.Service).Restore, actionInput.mode),
		},
		{
			Name: control.ActionObserve, Undo: "restore", Verify: verifyMode, Parameters: modeParameters,
			Description: "Only counts what would be refused.",
			do:          act((*control.Service).Observe, actionInput.mode),
		},
		{
			Name: control.ActionEnforce, Undo: "rollback, or observe", Verify: verifyMode, Parameters: modeParameters,
			Description: "Makes refusals real.",
			do:          act((*control.Service).Enforce, actionInput.mode),
		},
		{
			Name: control.ActionPause, Undo: "resume", Verify: "until when the gate is paused", Parameters: []string{"pool", "for"},
			Description: "Grants no permits until resumed or until the time has passed; running tasks continue, arriving tasks are queued or refused by the rules.",
			do:          act((*control.Service).Pause, actionInput.pause),
		},
		{
			Name: control.ActionResume, Undo: "pause", Verify: "that the gate is not paused", Parameters: []string{"pool"},
			Description: "Ends a pause, and grants permits to queued tasks.",
			do:          act((*control.Service).Resume, actionInput.pause),
		},
		{
			Name: control.ActionAck, Undo: "it expires", Verify: "who has acknowledged the incident", Parameters: []string{"incident", "for"},
			Description: "Acknowledges an open incident: no reminders until then. Escalations still notify.",
			do:          act((*control.Service).Acknowledge, actionInput.ack),
		},
		{
			Name: control.ActionSilence, Undo: "DELETE /api/v1/silences/{id}, or it expires", Verify: "that the silence exists",
			Parameters:  []string{"rule", "pool", "for"},
			Description: "Mutes the notifications of a rule; the rule is still evaluated.",
			do:          act((*control.Service).Silence, actionInput.silence),
		},
	}
}

func (a *Admin) doAction(r *http.Request, by control.Actor, m ActionRequest) (any, error) {
	name := r.PathValue("name")
	result, err := DoAction(r.Context(), a.config.Control, by, name, m)
	return ActionReply{Action: name, DryRun: m.DryRun, Result: result}, err
}

// putMode changes modes: the same actions, chosen by the mode that they lead to.
func (a *Admin) putMode(r *http.Request, by control.Actor, m ModeRequest) (any, error) {
	result, err := SetMode(r.Context(), a.config.Control, by, r.PathValue("pool"), m)
	return ModeReply{DryRun: m.DryRun, Recorded: result.Recorded, Changes: result.Changes}, err
}

// SetMode changes the mode of a pool, or of all pools if its name is empty. See ControlProblem for its errors.
func SetMode(ctx context.Context, s *control.Service, by control.Actor, pool string, m ModeRequest) (control.Result, error) {
	name, ok := map[string]string{
		admission.PassThrough.String(): control.ActionRollback, ModeRestore: control.ActionRestore,
		admission.Observe.String(): control.ActionObserve, admission.Enforce.String(): control.ActionEnforce,
	}[m.Mode]
	if !ok {
		return control.Result{}, badRequest(http.StatusBadRequest, "mode must be enforce, observe, passthrough or restore.")
	}
	return DoAction(ctx, s, by, name, ActionRequest{Pool: pool, Reason: m.Reason, Expected: m.Expected, DropOverdue: m.DropOverdue, DryRun: m.DryRun})
}

// DoAction carries out an action by its name. See ControlProblem for its errors.
func DoAction(ctx context.Context, s *control.Service, by control.Actor, name string, m ActionRequest) (control.Result, error) {
	all := actions()
	i := slices.IndexFunc(all, func(a Action) bool { return a.Name == name })
	if i < 0 {
		return control.Result{}, notFound(TypeUnknownAction, "There is no action "+quoteName(name)+"; GET /api/v1/actions lists them.")
	}
	in, err := m.parse(all[i])
	if err != nil {
		return control.Result{}, invalid(err)
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	result, err := all[i].do(ctx, s, by, in)
	if err == nil && name == control.ActionAck && !m.DryRun && !result.Ack.Applied {
		return result, ackConflict(result.Ack)
	}
	return result, err
}

// parse reads a request, and refuses parameters that the action ignores: their sender expects them to count.
func (m ActionRequest) parse(a Action) (actionInput, error) {
	in := actionInput{ActionRequest: m}
	for _, p := range []struct {
		name  string
		given bool
	}{
		{"pool", m.Pool != ""}, {"incident", m.Incident != ""}, {"rule", m.Rule != ""}, {"for", m.For != ""},
		{"expected", m.Expected != ""}, {"drop_overdue", m.DropOverdue},
	} {
		if p.given && !slices.Contains(a.Parameters, p.name) {
			return in, fmt.Errorf("%s takes no %s; it takes %s", a.Name, p.name, strings.Join(a.Parameters, ", "))
		}
	}
	for _, f := range []struct {
		name, text string
		most       int
	}{{"incident", m.Incident, maxParam}, {"rule", m.Rule, maxParam}, {"reason", m.Reason, MaxReason}} {
		if err := CheckLine(f.name, f.text, f.most); err != nil {
			return in, err
		}
	}
	if m.For != "" {
		var err error
		if in.length, err = ParseDuration(m.For); err != nil {
			return in, fmt.Errorf("for %w", err)
		}
	}
	if m.Expected != "" {
		mode, err := admission.ParseMode(m.Expected)
		if err != nil {
			return in, errors.New("expected must be enforce, observe or passthrough")
		}
		in.expected = &mode
	}
	return in, nil
}

// actorOf says who sends a request.
func actorOf(r *http.Request) (control.Actor, error) {
	name := cmp.Or(r.Header.Get(ActorHeader), "api")
	if err := CheckLine(ActorHeader, name, MaxActor); err != nil {
		return control.Actor{}, invalid(err)
	}
	return control.Actor{Name: name, Via: control.ViaAPI}, nil
}

// ControlProblem is where the errors of control.Service become statuses.
func ControlProblem(err error) *Problem {
	var known *Problem
	var noPool *control.NoPoolError
	var mismatch *control.ModeMismatchError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &noPool):
		p := &Problem{Type: TypeUnknownPool, Status: http.StatusNotFound, Pools: noPool.Pools, Detail: "There are no pools."}
		if len(p.Pools) > 0 {
			p.Detail = fmt.Sprintf("There is no pool %s. There are: %s.", quoteName(noPool.Pool), strings.Join(p.Pools, ", "))
		}
		return p
	case errors.As(err, &mismatch):
		return &Problem{Type: TypeModeConflict, Status: http.StatusConflict, Current: mismatch.Current,
			Detail: "Nothing was changed: " + truncateDetail(err.Error()) + "."}
	case errors.Is(err, control.ErrNotPaused), errors.Is(err, engine.ErrTooMany):
		return &Problem{Status: http.StatusConflict, Detail: "Nothing was changed: " + truncateDetail(err.Error()) + "."}
	case errors.Is(err, control.ErrNoRuleEngine):
		return notFound(TypeMonitoringDisabled, noRuleEngineDetail)
	case errors.Is(err, engine.ErrNoIncident):
		return notFound(TypeUnknownIncident, "There is no such open incident; it may have been resolved.")
	case errors.Is(err, engine.ErrNoSilence):
		return notFound(TypeUnknownSilence, "There is no such silence; it may have expired.")
	case errors.Is(err, engine.ErrNoRule):
		return notFound(TypeUnknownRule, truncateDetail(err.Error())+".")
	case errors.Is(err, control.ErrInvalidAction), errors.Is(err, engine.ErrRefused):
		return badRequest(http.StatusBadRequest, truncateDetail(err.Error())+".")
	case errors.Is(err, engine.ErrNotRunning), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Problem{Status: http.StatusServiceUnavailable, Detail: "The rules engine does not answer: nothing was changed."}
	default:
		return &Problem{Status: http.StatusInternalServerError, Detail: "The action failed and nothing was changed; the log says why."}
	}
}
