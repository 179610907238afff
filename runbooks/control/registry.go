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

// ErrCall says that a Call makes no sense; its text says what would.
var ErrCall = errors.New("it cannot be done so")

// ErrNotWatching says that there are no rules and no incidents here.
var ErrNotWatching = errors.New("nothing is watched here")

// Call asks for an action. What an action does not need it must not carry, but for
// Reason.
type Call struct {
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

// Outcome is what came of a Call.
type Outcome struct {
	Words    string   // what was done, or would be, one sentence for each pool
	Recorded bool     // false: a restart would forget it; or a dry run
	Verified bool     // reading back found what was asked for; false in a dry run
	Found    string   // what reading back found
	Undo     []string // commands that take it back
	Until    time.Time

	Changes  []Change         // of modes
	Acked    *engine.Acked    // of ack
	Silenced *engine.Silenced // of silence
}

// Act is an action as the registry has it.
type Act struct {
	Name   string
	Does   string   // what it does, in one sentence
	Undo   string   // how it is taken back
	Verify string   // what reading back looks at
	Takes  []string // the fields of a Call that it takes, by their names in the API

	plan func(r *Registry, now time.Time, c Call) (Outcome, error)
	do   func(r *Registry, ctx context.Context, now time.Time, c Call) (Outcome, error)
}

// Orders is what the engine takes from people. *engine.Engine does.
type Orders interface {
	Ack(ctx context.Context, id, by string, length time.Duration) (engine.Acked, error)
	Silence(ctx context.Context, s engine.Silence) (engine.Silenced, error)
	Unsilence(ctx context.Context, id, by string) (engine.Silence, error)
	Incidents() []engine.Incident
	Silences() []engine.Silence
}

// Registry is everything that can be done, whoever asks: the commands, the API,
// Slack, the pages, drills. Its methods may be called from any goroutine.
type Registry struct {
	modes  *Controller
	pauses *Pauses
	audit  interface{ Note(Entry) }
	orders Orders // nil: nothing is watched
	acts   []Act
}

// NewRegistry returns the actions over modes, pauses and, unless it is nil, the
// engine. Audit gets what is done or refused, but for changes of mode, which have a
// record of their own, and for what comes from Slack, where every press is noted.
func NewRegistry(modes *Controller, pauses *Pauses, orders Orders, audit interface{ Note(Entry) }) *Registry {
	return &Registry{modes: modes, pauses: pauses, orders: orders, audit: audit, acts: acts()}
}

// Acts returns the actions, in a fixed order.
func (r *Registry) Acts() []Act { return slices.Clone(r.acts) }

// Do carries a call out and reads back, or says what it would do. Errors are
// ErrCall, ErrNoPool, ErrUnexpected, ErrNotPaused, ErrNotWatching and those of the
// engine; with any of them nothing was changed.
func (r *Registry) Do(ctx context.Context, now time.Time, c Call) (Outcome, error) {
	i := slices.IndexFunc(r.acts, func(a Act) bool { return a.Name == c.Name })
	if i < 0 {
		return Outcome{}, fmt.Errorf("%w: there is no action %.40q; there are %s", ErrCall, c.Name, strings.Join(names(r.acts), ", "))
	}
	a := r.acts[i]
	if err := a.check(c); err != nil {
		return Outcome{}, err
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
		return engine.Silence{}, ErrNotWatching
	}
	s, err := r.orders.Unsilence(ctx, id, by)
	e := Entry{
		At: now, Kind: KindAction, Action: ActLift, Ending: Done, Pool: s.Pool, Actor: by, Via: via,
		Inputs: map[string]string{"silence": id, "rule": s.Rule},
	}
	if err != nil {
		e.Ending, e.Inputs = Refused, map[string]string{"silence": id, "why": err.Error()}
	}
	r.audit.Note(e)
	return s, err
}

func names(acts []Act) []string {
	var all []string
	for _, a := range acts {
		all = append(all, a.Name)
	}
	return all
}

// check refuses what the action does not take: whoever says it expects it to
// count.
func (a Act) check(c Call) error {
	given := map[string]bool{
		"pool": c.Pool != "", "incident": c.Incident != "", "rule": c.Rule != "", "for": c.For != 0,
		"expected": c.Expected != nil || c.Since != nil, "drop_overdue": c.DropOverdue,
	}
	for _, name := range []string{"pool", "incident", "rule", "for", "expected", "drop_overdue"} {
		if given[name] && !slices.Contains(a.Takes, name) {
			return fmt.Errorf("%w: %s takes no %s; it takes %s", ErrCall, a.Name, name, strings.Join(a.Takes, ", "))
		}
	}
	if c.For < 0 {
		return fmt.Errorf("%w: for must be above 0", ErrCall)
	}
	return nil
}

// note enters what was done or refused into the audit.
func (r *Registry) note(now time.Time, c Call, o Outcome, err error) {
	if c.Via == ViaSlack || (err == nil && len(o.Changes) > 0) {
		return
	}
	e := Entry{
		At: now, Kind: KindAction, Action: c.Name, Ending: Done, Pool: c.Pool, Subject: c.Incident, Actor: c.Actor, Via: c.Via,
		Reason: c.Reason, Inputs: map[string]string{"found": o.Found},
	}
	if c.Rule != "" {
		e.Inputs["rule"] = c.Rule
	}
	if c.For > 0 {
		e.Inputs["for"] = c.For.Round(time.Second).String()
	}
	if err != nil {
		e.Ending, e.Inputs["why"] = Refused, err.Error()
		delete(e.Inputs, "found")
	}
	if o.Acked != nil && !o.Acked.Won {
		e.Ending = Refused // somebody was faster
	}
	r.audit.Note(e)
}
