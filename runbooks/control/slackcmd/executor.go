package slackcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/format"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/spec"
)

// maxReason limits the reason of a mode change, in bytes.
const maxReason = 900

// Config configures an Executor. All fields are required unless noted.
type Config struct {
	Control   *control.Service
	Modes     *control.Controller
	Audit     control.AuditSink
	Incidents Incidents
	Pools     func(now time.Time) []control.PoolStatus
	Links     bool // messages link to runbooks
	Log       *slog.Logger
	NewID     func() string // a UUIDv7

	// Drills returns the configured drills, and StartDrill starts one. Nil StartDrill: drills are not available.
	Drills     func() []drill.Spec
	StartDrill func(ctx context.Context, s drill.Spec, actor, reason string) (drill.Run, error)
}

// Incidents are the recorded incidents.
type Incidents interface {
	// History returns an incident and its events in order, or engine.ErrNoIncident.
	History(ctx context.Context, id string) (engine.Incident, []engine.Event, error)
	// Append records an event of an incident that the engine no longer holds, and has it delivered.
	Append(ctx context.Context, inc engine.Incident, e engine.Event) error
}

// Executor executes commands from Slack. It is safe for concurrent use.
type Executor struct {
	c Config

	refreshMu sync.Mutex // held while the message of a closed incident is refreshed
}

var _ slack.Executor = (*Executor)(nil)

// New returns an Executor.
func New(c Config) *Executor { return &Executor{c: c} }

// Execute executes a command if it fits the present state.
func (x *Executor) Execute(ctx context.Context, c slack.Command) slack.Response {
	var text string
	var err error
	switch c.Action {
	case slack.Rollback, slack.Restore:
		text, err = x.setMode(ctx, c)
		if c.Observed != nil {
			x.refreshMessage(ctx, c.Incident, c.Pool)
		}
	case slack.Ack:
		text, err = x.acknowledge(ctx, c)
	case slack.Silence:
		text, err = x.silence(ctx, c)
	case slack.Runbook:
		text, err = x.showRunbook(ctx, c)
	case slack.Drill:
		text, err = x.startDrill(ctx, c)
	case slack.Status:
		text = strings.Join(x.statusLines(c.At), "\n")
	default:
		err = refuse("this action is not available from Slack")
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return slack.Response{Result: slack.Refused, Text: "Not executed: " + refused.reason + "."}
	case err != nil:
		return slack.Response{Result: slack.Failed, Text: "Failed: " + err.Error() + "."}
	default:
		return slack.Response{Result: slack.Done, Text: text}
	}
}

// refusal is an error that says why nothing was changed: a sentence without its full stop.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// refuseIfInvalid makes a refusal of errors that are due to the request, and leaves others as they are.
func refuseIfInvalid(err error) error {
	for _, known := range []error{
		engine.ErrRefused, engine.ErrNoRule, engine.ErrTooMany, engine.ErrNoIncident,
		control.ErrInvalidAction, control.ErrModeMismatch,
	} {
		if errors.Is(err, known) {
			return refuse("%v", err)
		}
	}
	return err
}

// AppendAudit records a command, or what was rejected before it became one.
func (x *Executor) AppendAudit(_ context.Context, e slack.AuditEntry) {
	entry := control.AuditEntry{
		At: time.Now(), Kind: control.KindInteraction, Action: cmp.Or(string(e.Action), "callback"),
		Result: control.AuditResult(e.Result), Pool: e.Pool, Subject: e.Incident,
		Actor: cmp.Or(e.Actor, "unknown"), Via: control.ViaSlack, Reason: e.Reason, Inputs: e.Inputs,
	}
	if e.Forged {
		entry.Kind = control.KindAccess
	}
	x.c.Audit.Append(entry)
}

func actor(c slack.Command) control.Actor { return control.Actor{Name: c.Actor, Via: control.ViaSlack} }

// buttonIncident finds the incident of a button, and checks that the message was about it: an incident of another
// headgate, or of a lost record, is unknown.
func (x *Executor) buttonIncident(ctx context.Context, c slack.Command) (engine.Incident, error) {
	inc, open := x.engineIncident(c.Incident)
	if !open {
		var err error
		inc, _, err = x.c.Incidents.History(ctx, c.Incident)
		if errors.Is(err, engine.ErrNoIncident) {
			return inc, refuse("no such incident is known to this headgate")
		}
		if err != nil {
			return inc, err
		}
	}
	if c.Observed != nil && (c.Observed.Seq > inc.Seq || c.Pool != inc.Pool || c.Rule != inc.Rule) {
		return inc, refuse("the message and this headgate's record of the incident differ")
	}
	return inc, nil
}

// openIncident is buttonIncident for what makes no sense after the incident was resolved.
func (x *Executor) openIncident(ctx context.Context, c slack.Command) (engine.Incident, error) {
	inc, err := x.buttonIncident(ctx, c)
	if err == nil && !inc.Open() {
		err = refuse("the incident was resolved at %s", format.Time(inc.Ended))
	}
	return inc, err
}

// engineIncident finds an incident that the engine still holds.
func (x *Executor) engineIncident(id string) (engine.Incident, bool) {
	for _, i := range x.c.Control.Engine().Incidents() {
		if i.ID == id {
			return i, true
		}
	}
	return engine.Incident{}, false
}

func (x *Executor) acknowledge(ctx context.Context, c slack.Command) (string, error) {
	inc, err := x.openIncident(ctx, c)
	if err != nil {
		return "", err
	}
	if c.Observed != nil && c.Observed.Seq != inc.Seq && x.hasEscalated(ctx, inc.ID, c.Observed.Seq) {
		return "", refuse("it has escalated since that message, and is a %s now", inc.Level)
	}
	done, err := x.c.Control.Acknowledge(ctx, actor(c), control.AckOptions{Incident: c.Incident})
	acked := done.Ack
	switch {
	case errors.Is(err, engine.ErrNoIncident):
		return "", refuse("the incident has been resolved in the meantime")
	case err != nil:
		return "", refuseIfInvalid(err)
	case acked.Applied:
		return fmt.Sprintf("You have acknowledged it until %s. Reminders stop until then.", format.Time(acked.Until)), nil
	}
	by := acked.By + " has"
	if acked.By == c.Actor {
		by = "you have"
	}
	return "", refuse("%s already acknowledged it,%s until %s", by, x.ackedSince(ctx, inc.ID), format.Time(acked.Until))
}

// hasEscalated says whether an incident has risen since the message that was pressed: the user must have seen what they
// acknowledge. What is not recorded yet does not count.
func (x *Executor) hasEscalated(ctx context.Context, id string, seq int) bool {
	_, events, err := x.c.Incidents.History(ctx, id)
	return err == nil && slices.ContainsFunc(events, func(e engine.Event) bool {
		return e.Seq > seq && (e.Kind == engine.EventEscalated || e.Kind == engine.EventReopened)
	})
}

// ackedSince is the time of the latest acknowledgement, as far as it is recorded yet.
func (x *Executor) ackedSince(ctx context.Context, id string) string {
	_, events, err := x.c.Incidents.History(ctx, id)
	if err != nil {
		return "" // the user matters more, and is known
	}
	for _, e := range slices.Backward(events) {
		if e.Kind == engine.EventAcked {
			return " since " + format.Time(e.At) + ","
		}
	}
	return ""
}

func (x *Executor) silence(ctx context.Context, c slack.Command) (string, error) {
	o := control.SilenceOptions{Rule: c.Rule, Reason: c.Reason, For: c.Duration}
	if c.Observed != nil {
		inc, err := x.openIncident(ctx, c)
		if err != nil {
			return "", err
		}
		o.Rule, o.Pool, o.Reason = inc.Rule, inc.Pool, "a button in Slack"
	}
	done, err := x.c.Control.Silence(ctx, actor(c), o)
	if err != nil {
		return "", refuseIfInvalid(err)
	}
	s := done.Silence.Silence
	if !done.Silence.Applied {
		return "", refuse("%s has already silenced %s, until %s", s.By, s.Rule, format.Time(s.Until))
	}
	return fmt.Sprintf("%s is silenced until %s. Incidents still open and resolve, and are recorded.",
		s.Rule, format.Time(s.Until)), nil
}

// setMode rolls back or restores. A button press counts only if the pool is still in the mode that the message showed,
// and has been since then.
func (x *Executor) setMode(ctx context.Context, c slack.Command) (string, error) {
	o := control.ModeOptions{Pool: c.Pool, Reason: format.TruncateBytes(c.Reason, maxReason)}
	find, set := x.buttonIncident, x.c.Control.Restore // a restore is due after the end of the incident too
	if c.Action == slack.Rollback {
		find, set = x.openIncident, x.c.Control.Rollback
	}
	if c.Observed != nil {
		inc, err := find(ctx, c)
		if err == nil {
			err = x.checkMode(c)
		}
		if err != nil {
			return "", err
		}
		expected, err := admission.ParseMode(c.Observed.Mode)
		if err != nil {
			return "", refuse("the message does not say in which mode the pool was")
		}
		o.Expected, o.Since, o.Reason = &expected, &c.Observed.ModeSince, "a button of the incident "+inc.Rule
	}
	res, err := set(ctx, actor(c), o)
	if unknown := (*control.NoPoolError)(nil); errors.As(err, &unknown) {
		return "", refuse("unknown pool %.63q; pools: %s", c.Pool, strings.Join(unknown.Pools, ", "))
	}
	if errors.Is(err, control.ErrModeMismatch) && c.Observed != nil {
		if changed := x.checkMode(c); changed != nil { // it says who was faster
			return "", changed
		}
	}
	if err != nil {
		return "", refuseIfInvalid(err)
	}
	return modeText(res)
}

// checkMode refuses if the mode has changed since the message, and says who changed it.
func (x *Executor) checkMode(c slack.Command) error {
	s, ok := x.c.Modes.State(c.Pool)
	switch {
	case !ok:
		return refuse("the pool %.63q was removed", c.Pool)
	case s.Mode.String() == c.Observed.Mode && s.Since.Equal(c.Observed.ModeSince):
		return nil
	}
	return refuse("pool %s has been in %s since %s, set by %s%s",
		s.Pool, s.Mode, format.Time(s.Since), s.Actor, parenthesized(s.Reason))
}

func parenthesized(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func modeText(res control.Result) (string, error) {
	var lines []string
	changed := false
	for _, c := range res.Changes {
		if c.From == c.To {
			lines = append(lines, fmt.Sprintf("Pool %s is already in %s.", c.Pool, c.To))
			continue
		}
		changed = true
		lines = append(lines, fmt.Sprintf("Pool %s: from %s to %s. %d running and %d waiting tasks are kept.",
			c.Pool, c.From, c.To, c.Running, c.Queued))
	}
	if changed && !res.Recorded {
		lines = append(lines, "Not recorded yet: a restart would lose the change.")
	}
	text := strings.Join(lines, "\n")
	if !changed {
		return "", refuse("%s", strings.TrimSuffix(text, "."))
	}
	return text, nil
}

// showRunbook says where the runbook is. If the button is a link, it has opened the runbook already.
func (x *Executor) showRunbook(ctx context.Context, c slack.Command) (string, error) {
	inc, err := x.buttonIncident(ctx, c)
	if err != nil || x.c.Links && inc.Runbook != "" {
		return "", err
	}
	return fmt.Sprintf("Runbook %s: headgate incident show %s", inc.Runbook, inc.ID), nil
}

// startDrill starts a drill. Its verdict is sent to the channel of drills.
func (x *Executor) startDrill(ctx context.Context, c slack.Command) (string, error) {
	if x.c.StartDrill == nil {
		return "", refuse("drills are not available")
	}
	specs := x.c.Drills()
	s, ok := spec.Find(specs, c.Drill)
	if !ok {
		var ids []string
		for _, s := range specs {
			ids = append(ids, s.ID)
		}
		if len(ids) == 0 {
			return "", refuse("no drills are configured")
		}
		return "", refuse("unknown drill %.63q; drills: %s", c.Drill, strings.Join(ids, ", "))
	}
	run, err := x.c.StartDrill(ctx, s, c.Actor, "a command in Slack")
	if err != nil {
		return "", refuse("%v", err)
	}
	return "Drill " + s.ID + " started: headgate drill show " + run.ID, nil
}

// statusLines are a line for each pool and for each open incident.
func (x *Executor) statusLines(now time.Time) []string {
	var lines []string
	for _, p := range x.c.Pools(now) {
		line := fmt.Sprintf("Pool %s: %s since %s by %s%s; %d of %d in flight, %d waiting",
			p.Name, p.Mode, format.Time(p.ModeSince), p.ModeBy, parenthesized(p.ModeReason), p.InFlight, p.Workers, p.QueueDepth)
		if p.QueueDepth > 0 {
			line += fmt.Sprintf(", the oldest for %.0f s", p.QueueOldestAgeS)
		}
		line += fmt.Sprintf("; in the last minute %d admitted and %d rejected", p.Admitted1m, p.Refused1m)
		if p.P95TurnaroundS != nil {
			line += fmt.Sprintf("; p95 %.1f s of %.0f s", *p.P95TurnaroundS, p.SLOS)
		}
		lines = append(lines, line+".")
	}
	open := 0
	for _, i := range x.c.Control.Engine().Incidents() {
		if i.Open() {
			open++
			lines = append(lines, fmt.Sprintf("Open, %s: %s%s, %s", i.Level, i.Rule, parenthesized(i.Pool), i.ID))
		}
	}
	if open == 0 {
		lines = append(lines, "No incident is open.")
	}
	return lines
}

// refreshMessage updates the message whose mode button was pressed, if the incident was closed so long ago that the
// engine no longer holds it: otherwise the message would not show the change of mode, and would keep the button. The event goes through the record and the outbox, like the engine's own.
func (x *Executor) refreshMessage(ctx context.Context, id, pool string) {
	x.refreshMu.Lock() // two presses must not add the same event
	defer x.refreshMu.Unlock()
	if _, held := x.engineIncident(id); held {
		return // the engine adds it
	}
	inc, events, err := x.c.Incidents.History(ctx, id)
	s, ok := x.c.Modes.State(pool)
	if err != nil || !ok || inc.Pool != pool || len(events) == 0 {
		return
	}
	if last := events[len(events)-1]; !last.At.Before(s.Since) {
		return // the message shows it, or did so then
	}
	inc.Seq++
	e := engine.Event{
		ID: x.c.NewID(), Incident: inc.ID, Seq: inc.Seq, Kind: engine.EventMode,
		At: time.Now().UTC().Truncate(time.Millisecond), Level: inc.Level, Value: inc.Value,
		By: s.Actor, Text: format.TruncateBytes(s.Reason, maxReason),
	}
	if err := x.c.Incidents.Append(ctx, inc, e); err != nil {
		x.c.Log.Warn("slack message is outdated", "incident", id, "error", err)
	}
}
