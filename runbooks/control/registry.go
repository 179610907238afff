package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
)

// ErrInvalidAction says that a ActionRequest makes no sense; its text says what would.
var ErrInvalidAction = errors.New("it cannot be done so")

// ErrNoRuleEngine says that there are no rules and no incidents here.
var ErrNoRuleEngine = errors.New("nothing is watched here")

// ActionRequest asks for an action. What an action does not need it must not carry, but for
// Reason.
type ActionRequest struct {
	Name        string        // of the action
	Pool        string        // empty: all pools
	Incident    string        // for ack
	Rule        string        // for silence
	For         time.Duration // for pause, silence and ack; 0: the usual
	Reason      string
	Expected    *admission.Mode // refuse unless every pool is in this mode; nil: do not ask
	Since       *time.Time      // refuse unless every pool came to its mode then; nil: do not ask
	DropOverdue bool            // for restore and observe
	DryRun      bool            // say what would be done, do nothing
	Actor       string
	Via         Via
}

// ActionResult is what came of a ActionRequest.
type ActionResult struct {
	Words    string   // what was done, or would be, one sentence for each pool
	Recorded bool     // false: a restart would forget it; or a dry run
	Verified bool     // reading back found what was asked for; false in a dry run
	Found    string   // what reading back found
	Undo     []string // commands that take it back
	Until    time.Time

	Changes  []ModeChange          // of modes
	Acked    *engine.AckResult     // of ack
	Silenced *engine.SilenceResult // of silence
}

// ActionDef is an action as the registry has it.
type ActionDef struct {
	Name   string
	Does   string   // what it does, in one sentence
	Undo   string   // how it is taken back
	Verify string   // what reading back looks at
	Takes  []string // the fields of a ActionRequest that it takes, by their names in the API

	plan func(r *Registry, now time.Time, c ActionRequest) (ActionResult, error)
	do   func(r *Registry, ctx context.Context, now time.Time, c ActionRequest) (ActionResult, error)
}

// Orders is what the engine takes from people. *engine.Engine does.
type Orders interface {
	Ack(ctx context.Context, id, by string, length time.Duration) (engine.AckResult, error)
	Silence(ctx context.Context, s engine.Silence) (engine.SilenceResult, error)
	Unsilence(ctx context.Context, id, by string) (engine.Silence, error)
	Incidents() []engine.Incident
	Silences() []engine.Silence
}

// Registry is everything that can be done, whoever asks: the commands, the API,
// Slack, the pages, drills. Its methods may be called from any goroutine.
type Registry struct {
	modes  *Controller
	pauses *Pauses
	audit  interface{ Append(AuditEntry) }
	orders Orders // nil: nothing is watched
	acts   []ActionDef
}

// NewRegistry returns the actions over modes, pauses and, unless it is nil, the
// engine. AuditStore gets what is done or refused, but for changes of mode, which have a
// record of their own, and for what comes from Slack, where every press is noted.
func NewRegistry(modes *Controller, pauses *Pauses, orders Orders, audit interface{ Append(AuditEntry) }) *Registry {
	return &Registry{modes: modes, pauses: pauses, orders: orders, audit: audit, acts: acts()}
}

// Acts returns the actions, in a fixed order.
func (r *Registry) Acts() []ActionDef { return slices.Clone(r.acts) }

// Do carries a call out and reads back, or says what it would do. Errors are
// ErrInvalidAction, ErrNoPool, ErrModeMismatch, ErrNotPaused, ErrNoRuleEngine and those of the
// engine; with any of them nothing was changed.
func (r *Registry) Do(ctx context.Context, now time.Time, c ActionRequest) (ActionResult, error) {
	i := slices.IndexFunc(r.acts, func(a ActionDef) bool { return a.Name == c.Name })
	if i < 0 {
		return ActionResult{}, fmt.Errorf("%w: there is no action %.40q; there are %s", ErrInvalidAction, c.Name, strings.Join(names(r.acts), ", "))
	}
	a := r.acts[i]
	if err := a.check(c); err != nil {
		return ActionResult{}, err
	}
	if c.DryRun {
		return a.plan(r, now, c)
	}
	o, err := a.do(r, ctx, now, c)
	r.note(now, c, o, err)
	return o, err
}

// Lift ends a silence early: the undo of the action silence. Nothing is lifted if
// there is an error.
func (r *Registry) Lift(ctx context.Context, now time.Time, id, by string, via Via) (engine.Silence, error) {
	if r.orders == nil {
		return engine.Silence{}, ErrNoRuleEngine
	}
	s, err := r.orders.Unsilence(ctx, id, by)
	e := AuditEntry{
		At: now, Kind: KindAction, Action: ActLift, Result: Done, Pool: s.Pool, Actor: by, Via: via,
		Inputs: map[string]string{"silence": id, "rule": s.Rule},
	}
	if err != nil {
		e.Result, e.Inputs = Refused, map[string]string{"silence": id, "why": err.Error()}
	}
	r.audit.Append(e)
	return s, err
}

func names(acts []ActionDef) []string {
	var all []string
	for _, a := range acts {
		all = append(all, a.Name)
	}
	return all
}

// check refuses what the action does not take: whoever says it expects it to
// count.
func (a ActionDef) check(c ActionRequest) error {
	given := map[string]bool{
		"pool": c.Pool != "", "incident": c.Incident != "", "rule": c.Rule != "", "for": c.For != 0,
		"expected": c.Expected != nil || c.Since != nil, "drop_overdue": c.DropOverdue,
	}
	for _, name := range []string{"pool", "incident", "rule", "for", "expected", "drop_overdue"} {
		if given[name] && !slices.Contains(a.Takes, name) {
			return fmt.Errorf("%w: %s takes no %s; it takes %s", ErrInvalidAction, a.Name, name, strings.Join(a.Takes, ", "))
		}
	}
	if c.For < 0 {
		return fmt.Errorf("%w: for must be above 0", ErrInvalidAction)
	}
	return nil
}

// note enters what was done or refused into the audit.
func (r *Registry) note(now time.Time, c ActionRequest, o ActionResult, err error) {
	if c.Via == ViaSlack || (err == nil && len(o.Changes) > 0) {
		return
	}
	e := AuditEntry{
		At: now, Kind: KindAction, Action: c.Name, Result: Done, Pool: c.Pool, Subject: c.Incident, Actor: c.Actor, Via: c.Via,
		Reason: c.Reason, Inputs: map[string]string{"found": o.Found},
	}
	if c.Rule != "" {
		e.Inputs["rule"] = c.Rule
	}
	if c.For > 0 {
		e.Inputs["for"] = c.For.Round(time.Second).String()
	}
	if err != nil {
		e.Result, e.Inputs["why"] = Refused, err.Error()
		delete(e.Inputs, "found")
	}
	if o.Acked != nil && !o.Acked.Applied {
		e.Result = Refused // somebody was faster
	}
	r.audit.Append(e)
}
