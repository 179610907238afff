package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/format"
	"headgate/internal/sqlite"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
)

// maxReason bounds the reason of a change of mode, in bytes.
const maxReason = 900

// slackExecutor carries out what people ask for in Slack.
type slackExecutor struct {
	app   *App
	links bool // messages link to runbooks

	refreshMu sync.Mutex // held while the message of a closed incident is refreshed
}

var _ slack.Executor = (*slackExecutor)(nil)

// Execute implements slack.Executor.
func (d *slackExecutor) Execute(ctx context.Context, w slack.Command) slack.Response {
	switch w.Action {
	case slack.Rollback, slack.Restore:
		a := d.setMode(ctx, w)
		if w.Observed != nil {
			d.refreshMessage(ctx, w.Incident, w.Pool)
		}
		return a
	case slack.Ack:
		return d.ack(ctx, w)
	case slack.Silence:
		return d.silence(ctx, w)
	case slack.Runbook:
		return d.showRunbook(ctx, w)
	case slack.Drill:
		return d.startDrill(ctx, w)
	case slack.Status:
		return doneAnswer(strings.Join(d.statusLines(w.At), "\n"))
	default:
		return refusedAnswer("this action is not available from Slack")
	}
}

// actor is who sends a command.
func actor(w slack.Command) control.Actor { return control.Actor{Name: w.Actor, Via: control.ViaSlack} }

func doneAnswer(text string) slack.Response { return slack.Response{Result: slack.Done, Text: text} }

// refusedAnswer says that nothing was done, and why: a sentence without its full stop.
func refusedAnswer(format string, args ...any) slack.Response {
	return slack.Response{Result: slack.Refused, Text: "Not executed: " + fmt.Sprintf(format, args...) + "."}
}

func failedAnswer(err error) slack.Response {
	return slack.Response{Result: slack.Failed, Text: "Failed: " + err.Error() + "."}
}

// findIncident finds one, of now or of before.
func (d *slackExecutor) findIncident(ctx context.Context, id string) (engine.Incident, error) {
	for _, i := range d.app.monitor.engine.Incidents() {
		if i.ID == id {
			return i, nil
		}
	}
	story, err := d.app.store.IncidentHistory(ctx, id)
	return story.Incident, err
}

// buttonIncident finds the incident of a button, and checks that the message was about
// it: an incident of another headgate, or of a record that was lost, is not known.
// A nil answer means that all is well.
func (d *slackExecutor) buttonIncident(ctx context.Context, w slack.Command) (engine.Incident, *slack.Response) {
	inc, err := d.findIncident(ctx, w.Incident)
	switch {
	case errors.Is(err, sqlite.ErrNoIncident):
		return inc, new(refusedAnswer("no such incident is known to this headgate"))
	case err != nil:
		return inc, new(failedAnswer(err))
	case w.Observed != nil && (w.Observed.Seq > inc.Seq || w.Pool != inc.Key.Pool || w.Rule != inc.Key.Rule):
		return inc, new(refusedAnswer("the message and this headgate's record of the incident differ"))
	}
	return inc, nil
}

func refuseIfResolved(inc engine.Incident) *slack.Response {
	if inc.Open() {
		return nil
	}
	return new(refusedAnswer("the incident was resolved at %s", formatTime(inc.Ended)))
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (d *slackExecutor) ack(ctx context.Context, w slack.Command) slack.Response {
	inc, no := d.buttonIncident(ctx, w)
	if no == nil {
		no = refuseIfResolved(inc)
	}
	if no == nil {
		no = d.refuseIfEscalated(ctx, inc, w)
	}
	if no != nil {
		return *no
	}
	done, err := d.app.control.Acknowledge(ctx, actor(w), control.AckOptions{Incident: w.Incident})
	acked := done.Ack
	switch {
	case errors.Is(err, engine.ErrNoIncident):
		return refusedAnswer("the incident has been resolved in the meantime")
	case err != nil:
		return engineErrorAnswer(err)
	case acked.Applied:
		return doneAnswer(fmt.Sprintf("You have acknowledged it until %s. Reminders stop until then.", formatTime(acked.Until)))
	case acked.By == w.Actor:
		return refusedAnswer("you have already acknowledged it,%s until %s", d.ackedSince(ctx, inc.ID), formatTime(acked.Until))
	default:
		return refusedAnswer("%s has already acknowledged it,%s until %s", acked.By, d.ackedSince(ctx, inc.ID), formatTime(acked.Until))
	}
}

// refuseIfEscalated says that an incident has risen since the message that was pressed on: who
// takes it on must have seen what it is. What is not recorded yet does not count.
func (d *slackExecutor) refuseIfEscalated(ctx context.Context, inc engine.Incident, w slack.Command) *slack.Response {
	if w.Observed == nil || w.Observed.Seq == inc.Seq {
		return nil
	}
	story, err := d.app.store.IncidentHistory(ctx, inc.ID)
	rose := func(e engine.Event) bool {
		return e.Seq > w.Observed.Seq && (e.Kind == engine.EventEscalated || e.Kind == engine.EventReopened)
	}
	if err != nil || !slices.ContainsFunc(story.Events, rose) {
		return nil
	}
	return new(refusedAnswer("it has escalated since that message, and is a %s now", inc.Level))
}

// ackedSince says since when somebody has an incident, as far as that is recorded yet.
func (d *slackExecutor) ackedSince(ctx context.Context, id string) string {
	story, err := d.app.store.IncidentHistory(ctx, id)
	if err != nil {
		return "" // who has it is known, and matters more
	}
	for _, e := range slices.Backward(story.Events) {
		if e.Kind == engine.EventAcked {
			return " since " + formatTime(e.At) + ","
		}
	}
	return ""
}

// engineErrorAnswer tells wishes that cannot be from troubles.
func engineErrorAnswer(err error) slack.Response {
	for _, known := range []error{engine.ErrRefused, engine.ErrNoRule, engine.ErrTooMany, engine.ErrNoIncident, control.ErrInvalidAction} {
		if errors.Is(err, known) {
			return refusedAnswer("%v", err)
		}
	}
	return failedAnswer(err)
}

func (d *slackExecutor) silence(ctx context.Context, w slack.Command) slack.Response {
	o := control.SilenceOptions{Rule: w.Rule, Reason: w.Reason, For: w.Duration}
	if w.Observed != nil {
		inc, no := d.buttonIncident(ctx, w)
		if no == nil {
			no = refuseIfResolved(inc)
		}
		if no != nil {
			return *no
		}
		o.Rule, o.Pool, o.Reason = inc.Key.Rule, inc.Key.Pool, "a button in Slack"
	}
	done, err := d.app.control.Silence(ctx, actor(w), o)
	if err != nil {
		return engineErrorAnswer(err)
	}
	s := done.Silence.Silence
	if !done.Silence.Applied {
		return refusedAnswer("%s has already silenced %s, until %s", s.By, s.Rule, formatTime(s.Until))
	}
	return doneAnswer(fmt.Sprintf("%s is silenced until %s. Incidents still open and resolve, and are recorded.", s.Rule, formatTime(s.Until)))
}

// setMode rolls back or restores. A press counts only if the pool stands as the
// message said: in that mode, and since then.
func (d *slackExecutor) setMode(ctx context.Context, w slack.Command) slack.Response {
	o := control.ModeOptions{Pool: w.Pool, Reason: format.TruncateBytes(w.Reason, maxReason)}
	if w.Observed != nil {
		inc, no := d.buttonIncident(ctx, w)
		if no == nil && w.Action == slack.Rollback {
			no = refuseIfResolved(inc)
		}
		if no == nil {
			no = d.refuseIfModeChanged(w)
		}
		if no != nil {
			return *no
		}
		expected, err := admission.ParseMode(w.Observed.Mode)
		if err != nil {
			return refusedAnswer("the message does not say in which mode the pool was")
		}
		o.Expected, o.Since, o.Reason = &expected, &w.Observed.ModeSince, "a button of the incident "+inc.Key.Rule
	}
	setMode := d.app.control.Rollback
	if w.Action == slack.Restore {
		setMode = d.app.control.Restore
	}
	res, err := setMode(ctx, actor(w), o)
	switch {
	case errors.Is(err, control.ErrModeMismatch):
		if no := d.refuseIfModeChanged(w); no != nil {
			return *no
		}
		return refusedAnswer("%v", err)
	case errors.Is(err, control.ErrNoPool):
		return refusedAnswer("unknown pool %.63q; pools: %s", w.Pool, strings.Join(d.poolNames(), ", "))
	case err != nil:
		return failedAnswer(err)
	}
	return modeAnswer(res)
}

// refuseIfModeChanged says who was faster, if the pool does not stand as the message said.
func (d *slackExecutor) refuseIfModeChanged(w slack.Command) *slack.Response {
	s, ok := d.app.modes.State(w.Pool)
	switch {
	case !ok:
		return new(refusedAnswer("the pool %.63q was removed", w.Pool))
	case s.Mode.String() == w.Observed.Mode && s.Since.Equal(w.Observed.ModeSince):
		return nil
	}
	return new(refusedAnswer("pool %s has been in %s since %s, set by %s%s", s.Pool, s.Mode, formatTime(s.Since), s.Actor, parenthesized(s.Reason)))
}

func parenthesized(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func (d *slackExecutor) poolNames() []string {
	var names []string
	for _, p := range d.app.Pools() {
		names = append(names, p.Name)
	}
	return names
}

func modeAnswer(res control.Result) slack.Response {
	var lines []string
	a := slack.Response{Result: slack.Refused}
	for _, c := range res.Changes {
		if c.From == c.To {
			lines = append(lines, fmt.Sprintf("Pool %s is already in %s.", c.Pool, c.To))
			continue
		}
		a.Result = slack.Done
		lines = append(lines, fmt.Sprintf("Pool %s: from %s to %s. %d running and %d waiting tasks are kept.", c.Pool, c.From, c.To, c.Running, c.Queued))
	}
	if a.Result == slack.Done && !res.Recorded {
		lines = append(lines, "Not recorded yet: a restart would lose the change.")
	}
	a.Text = strings.Join(lines, "\n")
	return a
}

// showRunbook says where to read what to do. Where the button is a link, it has done
// so itself.
func (d *slackExecutor) showRunbook(ctx context.Context, w slack.Command) slack.Response {
	inc, no := d.buttonIncident(ctx, w)
	if no != nil {
		return *no
	}
	if d.links && inc.Runbook != "" {
		return slack.Response{Result: slack.Done}
	}
	return doneAnswer(fmt.Sprintf("Runbook %s: headgate incident show %s", inc.Runbook, inc.ID))
}

// startDrill begins a drill. What comes of it is told where drills are told.
func (d *slackExecutor) startDrill(ctx context.Context, w slack.Command) slack.Response {
	if d.app.drills == nil {
		return refusedAnswer("drills are not available")
	}
	var names []string
	for _, s := range d.app.currentDrillSpecs() {
		if s.ID != w.Drill && s.Name != w.Drill {
			names = append(names, s.ID)
			continue
		}
		run, err := d.app.drills.runner.Start(ctx, runner.Request{Spec: s, Trigger: drill.ByHand, Actor: w.Actor, Reason: "a command in Slack"})
		if err != nil {
			return refusedAnswer("%v", err)
		}
		return doneAnswer("Drill " + s.ID + " started: headgate drill show " + run.ID)
	}
	if len(names) == 0 {
		return refusedAnswer("no drills are configured")
	}
	return refusedAnswer("unknown drill %.63q; drills: %s", w.Drill, strings.Join(names, ", "))
}

// statusLines says in a line for each how the pools and the open incidents stand.
func (d *slackExecutor) statusLines(now time.Time) []string {
	var lines []string
	for _, p := range d.app.Status(now).Pools {
		line := fmt.Sprintf("Pool %s: %s since %s by %s%s; %d of %d in flight, %d waiting", p.Name, p.Mode, formatTime(p.ModeSince), p.ModeBy,
			parenthesized(p.ModeReason), p.InFlight, p.Workers, p.QueueDepth)
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
	for _, i := range d.app.monitor.engine.Incidents() {
		if i.Open() {
			open++
			lines = append(lines, fmt.Sprintf("Open, %s: %s%s, %s", i.Level, i.Key.Rule, parenthesized(i.Key.Pool), i.ID))
		}
	}
	if open == 0 {
		lines = append(lines, "No incident is open.")
	}
	return lines
}
