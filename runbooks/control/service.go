package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"headgate/engine"
	"headgate/internal/format"
	"headgate/proxy/admission"
)

// The names of the actions of a Service, in the audit and the API.
const (
	ActionRollback  = "rollback"
	ActionRestore   = "restore"
	ActionObserve   = "observe"
	ActionEnforce   = "enforce"
	ActionPause     = "pause"
	ActionResume    = "resume"
	ActionAck       = "ack"
	ActionSilence   = "silence"
	ActionUnsilence = "lift"
)

// DefaultSilence is how long a silence lasts that names no duration.
const DefaultSilence = time.Hour

// maxAnnotation bounds the text of an annotation, in bytes; the engine takes 1000.
const maxAnnotation = 900

// Errors of a Service besides those of modes and of the engine. Nothing is changed then.
var (
	// ErrInvalidAction says that a request makes no sense; the text says what would.
	ErrInvalidAction = errors.New("invalid request")
	// ErrNoRuleEngine says that no rules are evaluated, so that there are no incidents and no silences.
	ErrNoRuleEngine = errors.New("no rules are evaluated here")
)

// Engine is the rules engine. *engine.Engine is one; tests have others.
type Engine interface {
	RuleEngine
	Silences() []engine.Silence
	Ack(ctx context.Context, id, by string, length time.Duration) (engine.AckResult, error)
	Silence(ctx context.Context, s engine.Silence) (engine.SilenceResult, error)
	Unsilence(ctx context.Context, id, by string) (engine.Silence, error)
}

var _ Engine = (*engine.Engine)(nil)

// Result is what an action did, or in a dry run what it would do.
type Result struct {
	Message      string       `json:"message"`       // one sentence for each pool
	Recorded     bool         `json:"recorded"`      // false: a restart would forget it; or a dry run
	Verified     bool         `json:"verified"`      // reading back found the requested state; false in a dry run
	Observed     string       `json:"observed"`      // what reading back found
	UndoCommands []string     `json:"undo_commands"` // commands that undo it
	Until        time.Time    `json:"until,omitzero"`
	Changes      []PoolChange `json:"changes"` // of modes

	Ack     engine.AckResult     `json:"-"` // of Acknowledge
	Silence engine.SilenceResult `json:"-"` // of Silence
}

// Service is everything that people and programs can do to a running headgate. The API, the pages, Slack, drills and,
// through the API, the commands call it. Every action reads back what it did, and enters it into the audit. The methods
// may be called from any goroutine.
type Service struct {
	modes  *Controller
	pauses *Pauses
	audit  AuditSink
	log    *slog.Logger
	engine Engine // nil: no rules are evaluated

	rollback *AutoRollback // nil: there is none
}

// NewService returns a Service over modes and pauses.
func NewService(modes *Controller, pauses *Pauses, audit AuditSink, log *slog.Logger) *Service {
	return &Service{modes: modes, pauses: pauses, audit: audit, log: log}
}

// SetEngine makes incidents and silences available. Call it before the Service is used.
func (s *Service) SetEngine(e Engine) { s.engine = e }

// SetAutoRollback shows the automatic rollback in the status of pools. Call it before the Service is used.
func (s *Service) SetAutoRollback(a *AutoRollback) { s.rollback = a }

// AddPool puts a pool into the mode and the pause that are recorded for it.
func (s *Service) AddPool(now time.Time, name string, gate *admission.Gate) {
	s.modes.Add(now, name, gate)
	s.pauses.PoolAdded(now, name)
}

// RemovePool ends the control of a pool. What is recorded about it is kept.
func (s *Service) RemovePool(name string) { s.modes.Remove(name) }

// Engine returns the rules engine, nil if no rules are evaluated.
func (s *Service) Engine() Engine { return s.engine }

// newResult returns a Result whose lists are empty rather than null in JSON.
func newResult(message string, until time.Time) Result {
	return Result{Message: message, Until: until, UndoCommands: []string{}, Changes: []PoolChange{}}
}

// audited runs an action and enters into the audit what was done or refused. Changes of mode have a record of their
// own, and so has every interaction in Slack.
func (s *Service) audited(by Actor, e *AuditEntry, act func() (Result, error)) (Result, error) {
	r, err := act()
	if by.Via == ViaSlack || (err == nil && len(r.Changes) > 0) {
		return r, err
	}
	e.At, e.Kind, e.Result, e.Actor, e.Via = time.Now(), KindAction, Done, by.Name, by.Via
	inputs := map[string]string{}
	maps.Copy(inputs, e.Inputs)
	e.Inputs = inputs
	if err != nil {
		e.Result, inputs["error"] = Refused, err.Error()
	} else if r.Observed != "" {
		inputs["observed"] = r.Observed
	}
	if err == nil && e.Action == ActionAck && !r.Ack.Applied {
		e.Result = Refused // it was acknowledged before
	}
	s.audit.Append(*e)
	return r, err
}

// ModeOptions say which modes are changed, and under which condition.
type ModeOptions struct {
	Pool        string          // empty: all pools
	Expected    *admission.Mode // refuse unless every pool is in this mode; nil: any mode
	Since       *time.Time      // refuse unless every pool entered its mode at this time; nil: any time
	DropOverdue bool            // reject queued tasks that can no longer finish in time; not for Rollback
	Reason      string
	DryRun      bool
}

// Rollback sets pools to passthrough: nothing is refused, and running and queued tasks are not touched.
func (s *Service) Rollback(ctx context.Context, by Actor, o ModeOptions) (Result, error) {
	if o.DropOverdue {
		return Result{}, fmt.Errorf("%w: drop_overdue does not apply to passthrough, in which nothing is refused",
			ErrInvalidAction)
	}
	return s.setMode(ctx, by, ActionRollback, ModeRequest{Action: Rollback, Mode: admission.PassThrough}, o)
}

// Restore sets pools from passthrough to the mode before it, and from observe to enforce.
func (s *Service) Restore(ctx context.Context, by Actor, o ModeOptions) (Result, error) {
	return s.setMode(ctx, by, ActionRestore, ModeRequest{Action: Restore}, o)
}

// Observe sets pools to observe: refusals are only counted.
func (s *Service) Observe(ctx context.Context, by Actor, o ModeOptions) (Result, error) {
	return s.setMode(ctx, by, ActionObserve, ModeRequest{Action: SetMode, Mode: admission.Observe}, o)
}

// Enforce sets pools to enforce: refusals are real.
func (s *Service) Enforce(ctx context.Context, by Actor, o ModeOptions) (Result, error) {
	return s.setMode(ctx, by, ActionEnforce, ModeRequest{Action: SetMode, Mode: admission.Enforce}, o)
}

func (s *Service) setMode(ctx context.Context, by Actor, action string, req ModeRequest, o ModeOptions) (Result, error) {
	req.Pool, req.Expected, req.Since, req.DropOverdue, req.Reason = o.Pool, o.Expected, o.Since, o.DropOverdue, o.Reason
	req.Actor, req.Via = by.Name, by.Via
	if o.DryRun {
		changes, err := s.modes.dryRun(time.Now(), req)
		return s.modeResult(changes, "would go"), err
	}
	return s.audited(by, &AuditEntry{Action: action, Pool: o.Pool, Reason: o.Reason}, func() (Result, error) {
		done, err := s.modes.Do(ctx, time.Now(), req)
		if err != nil {
			return Result{}, err
		}
		res := s.modeResult(done.Changes, "went")
		res.Recorded, res.Verified = done.Recorded, true
		var observed []string
		for _, c := range done.Changes {
			if mode, ok := s.modes.mode(c.Pool); ok { // else it was removed meanwhile
				observed = append(observed, fmt.Sprintf("pool %s is in %s", c.Pool, mode))
				res.Verified = res.Verified && mode == c.To
			}
			// A pool that was in the mode already may be there unrecorded.
			res.Recorded = res.Recorded && s.modes.Recorded(c.Pool)
		}
		res.Observed = strings.Join(observed, "; ")
		return res, nil
	})
}

// modeResult describes changes, with the queues that are left after them.
func (s *Service) modeResult(changes []ModeChange, verb string) Result {
	r := newResult("", time.Time{})
	var text []string
	for _, c := range changes {
		shown := PoolChange{ModeChange: c}
		if gate := s.modes.gate(c.Pool); gate != nil {
			overdue, drain := gate.Overdue(time.Now())
			shown.Overdue, shown.DrainS = overdue, Seconds(drain)
			if c.ID == "" { // not dropped yet
				shown.Overdue -= c.Dropped
			}
		}
		r.Changes = append(r.Changes, shown)
		line := fmt.Sprintf("Pool %s %s from %s to %s, with %d running and %d queued.",
			c.Pool, verb, c.From, c.To, c.Running, c.Queued)
		if c.From == c.To {
			line = fmt.Sprintf("Pool %s is in %s already.", c.Pool, c.To)
		} else {
			r.UndoCommands = append(r.UndoCommands, "headgate "+undoCommand(c)+" --pool "+c.Pool)
		}
		if c.Dropped > 0 {
			line += " " + format.Plural(c.Dropped, "queued task") + " rejected, since they can no longer finish in time."
		}
		text = append(text, line)
	}
	r.Message = strings.Join(text, " ")
	return r
}

// undoCommand returns the command that leads from a change's end back to its beginning.
func undoCommand(c ModeChange) string {
	switch {
	case c.From == admission.PassThrough:
		return ActionRollback
	case c.From == admission.Observe && c.To != admission.PassThrough:
		return ActionObserve
	default:
		return ActionRestore
	}
}

// PauseOptions say which pools are paused, and for how long.
type PauseOptions struct {
	Pool   string        // empty: all pools
	For    time.Duration // up to MaxPause; 0: DefaultPause. Not for Resume
	Reason string
	DryRun bool
}

// Pause keeps pools from granting permits until they are resumed or the time has passed. Running tasks go on; arriving
// tasks are queued, or refused by the rules.
func (s *Service) Pause(ctx context.Context, by Actor, o PauseOptions) (Result, error) {
	return s.setPause(ctx, by, ActionPause, o)
}

// Resume ends pauses, and grants permits to the tasks that are queued.
func (s *Service) Resume(ctx context.Context, by Actor, o PauseOptions) (Result, error) {
	return s.setPause(ctx, by, ActionResume, o)
}

func (s *Service) setPause(ctx context.Context, by Actor, action string, o PauseOptions) (Result, error) {
	now := time.Now()
	all, err := s.planPauses(now, by, action, o)
	if o.DryRun {
		return pauseResult(all, "would grant"), err
	}
	entry := &AuditEntry{Action: action, Pool: o.Pool, Reason: o.Reason, Inputs: durationInput(o.For)}
	return s.audited(by, entry, func() (Result, error) {
		if err != nil {
			return Result{}, err
		}
		r := pauseResult(all, "grants")
		r.Recorded, r.Verified = true, true
		var observed []string
		for _, p := range all {
			recorded, err := s.pauses.set(ctx, now, p)
			if err != nil {
				return Result{}, err // the pool was removed meanwhile
			}
			until, state := s.pauses.until(time.Now(), p.Pool), "is not paused"
			if !until.IsZero() {
				state = "is paused until " + formatTime(until)
			}
			r.Recorded, r.Verified = r.Recorded && recorded, r.Verified && until.IsZero() == p.Until.IsZero()
			observed = append(observed, "pool "+p.Pool+" "+state)
		}
		r.Observed = strings.Join(observed, "; ")
		return r, nil
	})
}

// planPauses returns the pauses that a request leads to, one for each pool. Those that end have no Until.
func (s *Service) planPauses(now time.Time, by Actor, action string, o PauseOptions) ([]Pause, error) {
	length := cmp.Or(o.For, DefaultPause)
	if length < 0 || length > MaxPause {
		return nil, fmt.Errorf("%w: a pause lasts up to %s, not %s", ErrInvalidAction, MaxPause, length)
	}
	var all []Pause
	var names []string
	for _, v := range s.modes.poolViews(now) {
		names = append(names, v.Pool)
		if o.Pool != "" && o.Pool != v.Pool {
			continue
		}
		p := Pause{Pool: v.Pool, Since: now.UTC().Truncate(time.Millisecond), Actor: by.Name, Via: by.Via, Reason: o.Reason}
		if action == ActionPause {
			p.Until = p.Since.Add(length)
		} else if v.gate.PausedUntil.IsZero() {
			if o.Pool != "" {
				return nil, fmt.Errorf("pool %q: %w", o.Pool, ErrNotPaused)
			}
			continue
		}
		all = append(all, p)
	}
	switch {
	case len(all) > 0:
		return all, nil
	case action == ActionResume && o.Pool == "":
		return nil, ErrNotPaused
	default:
		return nil, &NoPoolError{Pool: o.Pool, Pools: names}
	}
}

func pauseResult(all []Pause, verb string) Result {
	r := newResult("", time.Time{})
	var text []string
	for _, p := range all {
		if p.Until.IsZero() {
			text = append(text, fmt.Sprintf("Pool %s %s permits again.", p.Pool, verb))
			r.UndoCommands = append(r.UndoCommands, "headgate pause --pool "+p.Pool)
			continue
		}
		r.Until = p.Until
		text = append(text, fmt.Sprintf("Pool %s %s no permits until %s.", p.Pool, verb, formatTime(p.Until)))
		r.UndoCommands = append(r.UndoCommands, "headgate resume --pool "+p.Pool)
	}
	r.Message = strings.Join(text, " ")
	return r
}

// AckOptions say which incident is acknowledged, and for how long.
type AckOptions struct {
	Incident string
	For      time.Duration // 0: as the engine is configured
	Reason   string
	DryRun   bool
}

// Acknowledge stops the reminders of an open incident for some time, not its escalation. If it was acknowledged before,
// nothing is changed, and Result.Ack says by whom.
func (s *Service) Acknowledge(ctx context.Context, by Actor, o AckOptions) (Result, error) {
	if o.DryRun {
		inc, err := s.openIncident(o.Incident)
		return newResult(fmt.Sprintf("%s would acknowledge incident %s (%s).", by.Name, inc.ID, inc.Rule), time.Time{}), err
	}
	entry := &AuditEntry{Action: ActionAck, Subject: o.Incident, Reason: o.Reason, Inputs: durationInput(o.For)}
	return s.audited(by, entry, func() (Result, error) {
		if s.engine == nil {
			return Result{}, ErrNoRuleEngine
		}
		acked, err := s.engine.Ack(ctx, o.Incident, by.Name, o.For)
		if err != nil {
			return Result{}, err
		}
		message := fmt.Sprintf("%s has acknowledged incident %s until %s.", acked.By, o.Incident, formatTime(acked.Until))
		r := newResult(message, acked.Until)
		r.Recorded, r.Ack, r.Observed = true, acked, "the incident is resolved"
		if inc, err := s.openIncident(o.Incident); err == nil {
			r.Verified = inc.AckedBy == acked.By
			r.Observed = fmt.Sprintf("acknowledged by %s until %s", inc.AckedBy, formatTime(inc.AckUntil))
		}
		return r, nil
	})
}

func (s *Service) openIncident(id string) (engine.Incident, error) {
	if s.engine == nil {
		return engine.Incident{}, ErrNoRuleEngine
	}
	for _, inc := range s.engine.Incidents() {
		if inc.ID == id && inc.Open() {
			return inc, nil
		}
	}
	return engine.Incident{}, fmt.Errorf("%.64q: %w", id, engine.ErrNoIncident)
}

// SilenceOptions say which rule is silenced, and for how long.
type SilenceOptions struct {
	Rule   string
	Pool   string        // empty: all pools
	For    time.Duration // 0: DefaultSilence
	Reason string
	DryRun bool
}

// Silence mutes the notifications of a rule, not the rule, and announces that in the threads of the incidents that it
// mutes. If a silence with the same effect exists, nothing is changed, and Result.Silence shows that one.
func (s *Service) Silence(ctx context.Context, by Actor, o SilenceOptions) (Result, error) {
	now := time.Now()
	until := now.Add(cmp.Or(o.For, DefaultSilence))
	wanted := engine.Silence{Rule: o.Rule, Pool: o.Pool, From: now, Until: until, By: by.Name, Reason: o.Reason}
	if o.DryRun && s.engine != nil {
		return silenceResult(wanted, "would be"), nil
	}
	entry := &AuditEntry{Action: ActionSilence, Pool: o.Pool, Reason: o.Reason, Inputs: durationInput(o.For)}
	entry.Inputs["rule"] = o.Rule
	return s.audited(by, entry, func() (Result, error) {
		if s.engine == nil {
			return Result{}, ErrNoRuleEngine
		}
		done, err := s.engine.Silence(ctx, wanted)
		if err != nil {
			return Result{}, err
		}
		if done.Applied {
			s.announceSilence(ctx, done.Silence)
		}
		r := silenceResult(done.Silence, "is")
		r.Recorded, r.Silence, r.Observed = true, done, "the silence does not exist"
		if slices.ContainsFunc(s.engine.Silences(), func(o engine.Silence) bool { return o.ID == done.Silence.ID }) {
			r.Verified, r.Observed = true, "the silence exists"
		}
		return r, nil
	})
}

func silenceResult(s engine.Silence, verb string) Result {
	return newResult(fmt.Sprintf("Rule %s %s silenced until %s.", s.Rule, verb, formatTime(s.Until)), s.Until)
}

// announceSilence says in the threads of the muted incidents why they go quiet. The silence counts without it.
func (s *Service) announceSilence(ctx context.Context, made engine.Silence) {
	text := "until " + format.Time(made.Until)
	if made.Reason != "" {
		text += ", " + made.Reason
	}
	_, err := s.engine.Annotate(ctx, engine.Annotation{
		Kind: engine.EventSilenced, Rule: made.Rule, Pool: made.Pool, By: made.By,
		Text: format.TruncateBytes(text, maxAnnotation),
	})
	if err != nil {
		s.log.Warn("silence not announced", "rule", made.Rule, "error", err)
	}
}

// Unsilence ends a silence early. Result.Silence shows it.
func (s *Service) Unsilence(ctx context.Context, by Actor, id string) (Result, error) {
	entry := &AuditEntry{Action: ActionUnsilence, Inputs: map[string]string{"silence": id}}
	return s.audited(by, entry, func() (Result, error) {
		if s.engine == nil {
			return Result{}, ErrNoRuleEngine
		}
		ended, err := s.engine.Unsilence(ctx, id, by.Name)
		if err != nil {
			return Result{}, err
		}
		entry.Pool, entry.Inputs["rule"] = ended.Pool, ended.Rule
		r := newResult(fmt.Sprintf("The silence of rule %s has ended.", ended.Rule), time.Time{})
		r.Recorded, r.Verified, r.Silence = true, true, engine.SilenceResult{Silence: ended, Applied: true}
		return r, nil
	})
}

// durationInput is the duration that was asked for, as an input of an audit entry.
func durationInput(d time.Duration) map[string]string {
	in := map[string]string{}
	if d > 0 {
		in["for"] = d.Round(time.Second).String()
	}
	return in
}

// Seconds returns a duration in seconds, to the millisecond.
func Seconds(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Millisecond)) / 1000 }

// PoolStatus is the state of one pool. The API, the pages, the commands and Slack show it. A pointer is nil while there
// is no value.
type PoolStatus struct {
	Name         string    `json:"name"`
	Mode         string    `json:"mode"`          // enforce, observe or passthrough
	ModeSince    time.Time `json:"mode_since"`    // UTC, to the millisecond
	ModeBy       string    `json:"mode_by"`       // who changed it
	ModeReason   string    `json:"mode_reason"`   // empty if none was given
	ModeBefore   *string   `json:"mode_before"`   // what restore returns to; nil unless in passthrough
	ModeRecorded *bool     `json:"mode_recorded"` // false: a restart would forget the mode; nil: unknown
	Policy       string    `json:"policy"`

	AutoRollback *AutoRollbackStatus `json:"auto_rollback"` // nil: there is none
	Paused       *Pause              `json:"paused"`        // nil: permits are granted

	Workers         int     `json:"workers"`
	InFlight        int     `json:"in_flight"`
	QueueDepth      int     `json:"queue_depth"`
	QueueOldestAgeS float64 `json:"queue_oldest_age_s"` // 0 if none waits
	Overdue         int     `json:"overdue"`            // queued tasks that can no longer finish in time
	DrainS          float64 `json:"drain_s"`            // until every queued task has a permit, projected
	Draining        bool    `json:"draining"`           // the pool takes no new tasks

	// What the proxy observed; Service does not fill it in.
	P95TurnaroundS *float64 `json:"p95_turnaround_s"` // of the last minute; nil if nothing ended
	SLOS           float64  `json:"slo_s"`
	EnvelopeUse    *float64 `json:"envelope_use"` // share of the capacity in use; nil if not measured
	Refused1m      int      `json:"refused_1m"`
	Admitted1m     int      `json:"admitted_1m"`
}

// AutoRollbackStatus is the state of the automatic rollback of a pool.
type AutoRollbackStatus struct {
	State          RollbackPhase `json:"state"`
	RollbacksToday int           `json:"auto_rollbacks_today"` // in the last 24 hours
	HoldUntil      time.Time     `json:"hold_until,omitzero"`  // until then a person's decision counts
	Reason         string        `json:"why"`                  // what prevents a rollback, or caused it; empty: nothing
}

// PoolStatus returns the status of a pool, but for what the proxy observed; false if there is no such pool.
func (s *Service) PoolStatus(now time.Time, pool string) (PoolStatus, bool) {
	gate := s.modes.gate(pool)
	state, ok := s.modes.State(pool)
	if gate == nil || !ok {
		return PoolStatus{}, false
	}
	snapshot, recorded := gate.Snapshot(now), s.modes.Recorded(pool)
	overdue, drain := gate.Overdue(now)
	status := PoolStatus{
		Name: pool, Mode: snapshot.Mode.String(), ModeSince: state.Since, ModeBy: state.Actor, ModeReason: state.Reason,
		ModeRecorded: &recorded, Policy: snapshot.Policy, Workers: snapshot.Workers, InFlight: snapshot.InFlight,
		QueueDepth: snapshot.Depth, QueueOldestAgeS: Seconds(snapshot.OldestAge), Overdue: overdue,
		DrainS: Seconds(drain), Draining: snapshot.Draining,
	}
	if state.Mode == admission.PassThrough {
		status.ModeBefore = new(state.RestoreMode.String())
	}
	if p, paused := s.pauses.Get(now, pool); paused {
		status.Paused = &p
	}
	if s.rollback != nil {
		status.AutoRollback = s.rollback.Status(pool)
	}
	return status, true
}
