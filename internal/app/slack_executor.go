package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/sqlite"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

// slackExecutor carries out what people ask for in Slack.
type slackExecutor struct {
	app   *App
	links bool // messages link to runbooks
}

var _ slack.Executor = slackExecutor{}

// Execute implements slack.Executor.
func (d slackExecutor) Execute(ctx context.Context, w slack.Command) slack.Response {
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
		return refusedAnswer("this cannot be done from Slack")
	}
}

// engineOrders takes what is asked of the engine.
func (d slackExecutor) engineOrders() control.Watched {
	return control.Watched{Engine: d.app.monitor.engine, Registry: d.app.actions, Via: viaSlack}
}

func viaSlack(context.Context) control.Via { return control.ViaSlack }

func doneAnswer(text string) slack.Response { return slack.Response{Result: slack.Done, Text: text} }

// refusedAnswer says that nothing was done, and why: a sentence without its full stop.
func refusedAnswer(format string, args ...any) slack.Response {
	return slack.Response{Result: slack.Refused, Text: "Nothing was done: " + fmt.Sprintf(format, args...) + "."}
}

func failedAnswer(err error) slack.Response {
	return slack.Response{Result: slack.Failed, Text: "It did not work: " + err.Error() + "."}
}

// findIncident finds one, of now or of before.
func (d slackExecutor) findIncident(ctx context.Context, id string) (engine.Incident, error) {
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
func (d slackExecutor) buttonIncident(ctx context.Context, w slack.Command) (engine.Incident, *slack.Response) {
	inc, err := d.findIncident(ctx, w.Incident)
	switch {
	case errors.Is(err, sqlite.ErrNoIncident):
		return inc, new(refusedAnswer("no such incident is known to this headgate"))
	case err != nil:
		return inc, new(failedAnswer(err))
	case w.Observed != nil && (w.Observed.Seq > inc.Seq || w.Pool != inc.Key.Pool || w.Rule != inc.Key.Rule):
		return inc, new(refusedAnswer("this headgate knows the incident otherwise than the message"))
	}
	return inc, nil
}

func refuseIfResolved(inc engine.Incident) *slack.Response {
	if inc.Open() {
		return nil
	}
	return new(refusedAnswer("the incident is over since %s", formatTime(inc.Ended)))
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (d slackExecutor) ack(ctx context.Context, w slack.Command) slack.Response {
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
	acked, err := d.engineOrders().Ack(ctx, w.Incident, w.Actor, 0)
	switch {
	case errors.Is(err, engine.ErrNoIncident):
		return refusedAnswer("the incident is over by now")
	case err != nil:
		return engineErrorAnswer(err)
	case acked.Applied:
		return doneAnswer(fmt.Sprintf("You have it, until %s. Reminders stop until then.", formatTime(acked.Until)))
	case acked.By == w.Actor:
		return refusedAnswer("you have it already,%s until %s", d.ackedSince(ctx, inc.ID), formatTime(acked.Until))
	default:
		return refusedAnswer("%s has it already,%s until %s", acked.By, d.ackedSince(ctx, inc.ID), formatTime(acked.Until))
	}
}

// refuseIfEscalated says that an incident has risen since the message that was pressed on: who
// takes it on must have seen what it is. What is not recorded yet does not count.
func (d slackExecutor) refuseIfEscalated(ctx context.Context, inc engine.Incident, w slack.Command) *slack.Response {
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
	return new(refusedAnswer("it has got worse since that message, and is a %s now", inc.Level))
}

// ackedSince says since when somebody has an incident, as far as that is recorded yet.
func (d slackExecutor) ackedSince(ctx context.Context, id string) string {
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

func (d slackExecutor) silence(ctx context.Context, w slack.Command) slack.Response {
	s := engine.Silence{Rule: w.Rule, By: w.Actor, Reason: w.Reason, Until: w.At.Add(w.Duration)}
	if w.Observed != nil {
		inc, no := d.buttonIncident(ctx, w)
		if no == nil {
			no = refuseIfResolved(inc)
		}
		if no != nil {
			return *no
		}
		s.Rule, s.Pool, s.Reason = inc.Key.Rule, inc.Key.Pool, "a button in Slack"
	}
	silenced, err := d.engineOrders().Silence(ctx, s)
	if err != nil {
		return engineErrorAnswer(err)
	}
	s = silenced.Silence
	if !silenced.Applied {
		return refusedAnswer("%s has silenced %s already, until %s", s.By, s.Rule, formatTime(s.Until))
	}
	return doneAnswer(fmt.Sprintf("%s is silenced until %s. Incidents open and end as before, and are recorded.", s.Rule, formatTime(s.Until)))
}

// setMode rolls back or restores. A press counts only if the pool stands as the
// message said: in that mode, and since then.
func (d slackExecutor) setMode(ctx context.Context, w slack.Command) slack.Response {
	o := control.ModeRequest{
		Action: control.ModeAction(w.Action), Pool: w.Pool, Actor: w.Actor, Via: control.ViaSlack, Reason: truncateText(w.Reason),
	}
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
	res, err := control.Modes{Registry: d.app.actions}.Do(ctx, time.Now(), o)
	switch {
	case errors.Is(err, control.ErrModeMismatch):
		if no := d.refuseIfModeChanged(w); no != nil {
			return *no
		}
		return refusedAnswer("%v", err)
	case errors.Is(err, control.ErrNoPool):
		return refusedAnswer("there is no pool %.63q; there are: %s", w.Pool, strings.Join(d.poolNames(), ", "))
	case err != nil:
		return failedAnswer(err)
	}
	return modeAnswer(res)
}

// refuseIfModeChanged says who was faster, if the pool does not stand as the message said.
func (d slackExecutor) refuseIfModeChanged(w slack.Command) *slack.Response {
	s, ok := d.app.modes.State(w.Pool)
	switch {
	case !ok:
		return new(refusedAnswer("there is no pool %.63q any more", w.Pool))
	case s.Mode.String() == w.Observed.Mode && s.Since.Equal(w.Observed.ModeSince):
		return nil
	}
	return new(refusedAnswer("pool %s is in %s since %s, set by %s%s", s.Pool, s.Mode, formatTime(s.Since), s.Actor, parenthesized(s.Reason)))
}

func parenthesized(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func (d slackExecutor) poolNames() []string {
	var names []string
	for _, p := range d.app.Pools() {
		names = append(names, p.Name)
	}
	return names
}

func modeAnswer(res control.ModeResult) slack.Response {
	var lines []string
	a := slack.Response{Result: slack.Refused}
	for _, c := range res.Changes {
		if c.From == c.To {
			lines = append(lines, fmt.Sprintf("Pool %s is in %s already.", c.Pool, c.To))
			continue
		}
		a.Result = slack.Done
		lines = append(lines, fmt.Sprintf("Pool %s: from %s to %s. %d run and %d wait, and go on.", c.Pool, c.From, c.To, c.Running, c.Queued))
	}
	if a.Result == slack.Done && !res.Recorded {
		lines = append(lines, "It is not recorded yet: a restart would forget it.")
	}
	a.Text = strings.Join(lines, "\n")
	return a
}

// showRunbook says where to read what to do. Where the button is a link, it has done
// so itself.
func (d slackExecutor) showRunbook(ctx context.Context, w slack.Command) slack.Response {
	inc, no := d.buttonIncident(ctx, w)
	if no != nil {
		return *no
	}
	if d.links && inc.Runbook != "" {
		return slack.Response{Result: slack.Done}
	}
	return doneAnswer(fmt.Sprintf("Runbook %s: headgate incident show %s", inc.Runbook, inc.ID))
}

// startDrill starts a drill. Its verdict is announced where those of all drills are.
func (d slackExecutor) startDrill(ctx context.Context, w slack.Command) slack.Response {
	if d.app.drills == nil {
		return refusedAnswer("this headgate has no drills")
	}
	started, err := d.app.drills.Start(ctx, drill.StartRequest{Name: w.Drill, Actor: w.Actor, Reason: "a command in Slack"})
	switch {
	case errors.Is(err, drill.ErrNoDrill):
		var names []string
		for _, s := range d.app.currentDrillSpecs() {
			names = append(names, s.ID)
		}
		return refusedAnswer("there is no drill %.63q; there are: %s", w.Drill, strings.Join(names, ", "))
	case err != nil:
		return refusedAnswer("%v", err)
	}
	return doneAnswer("The drill " + started.Plan.Drill + " has started: headgate drill show " + started.Run)
}

// statusLines says in a line for each how the pools and the open incidents stand.
func (d slackExecutor) statusLines(now time.Time) []string {
	var lines []string
	for _, p := range d.app.Status(now).Pools {
		line := fmt.Sprintf("Pool %s: %s since %s by %s%s; %d of %d in flight, %d wait", p.Name, p.Mode, formatTime(p.ModeSince), p.ModeBy,
			parenthesized(p.ModeReason), p.InFlight, p.Workers, p.QueueDepth)
		if p.QueueDepth > 0 {
			line += fmt.Sprintf(", the oldest for %.0f s", p.QueueOldestAgeS)
		}
		line += fmt.Sprintf("; in the last minute %d admitted and %d refused", p.Admitted1m, p.Refused1m)
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
