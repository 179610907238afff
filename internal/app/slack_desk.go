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

// slackDesk carries out what people ask for in Slack.
type slackDesk struct {
	a     *App
	links bool // messages link to runbooks
}

var _ slack.Desk = slackDesk{}

// Do implements slack.Desk.
func (d slackDesk) Do(ctx context.Context, w slack.Wish) slack.Answer {
	switch w.Action {
	case slack.Rollback, slack.Restore:
		a := d.mode(ctx, w)
		if w.Seen != nil {
			d.freshen(ctx, w.Incident, w.Pool)
		}
		return a
	case slack.Ack:
		return d.ack(ctx, w)
	case slack.Silence:
		return d.silence(ctx, w)
	case slack.Runbook:
		return d.runbook(ctx, w)
	case slack.Drill:
		return d.drill(ctx, w)
	case slack.Status:
		return done(strings.Join(d.status(w.At), "\n"))
	default:
		return refused("this cannot be done from Slack")
	}
}

// orders takes what is asked of the engine.
func (d slackDesk) orders() control.Watched {
	return control.Watched{Engine: d.a.watch.engine, Registry: d.a.actions, Via: viaSlack}
}

func viaSlack(context.Context) control.Via { return control.ViaSlack }

func done(text string) slack.Answer { return slack.Answer{Ending: slack.Done, Text: text} }

// refused says that nothing was done, and why: a sentence without its full stop.
func refused(format string, args ...any) slack.Answer {
	return slack.Answer{Ending: slack.Refused, Text: "Nothing was done: " + fmt.Sprintf(format, args...) + "."}
}

func failed(err error) slack.Answer {
	return slack.Answer{Ending: slack.Failed, Text: "It did not work: " + err.Error() + "."}
}

// incident finds one, of now or of before.
func (d slackDesk) incident(ctx context.Context, id string) (engine.Incident, error) {
	for _, i := range d.a.watch.engine.Incidents() {
		if i.ID == id {
			return i, nil
		}
	}
	story, err := d.a.store.Story(ctx, id)
	return story.Incident, err
}

// pressed finds the incident of a button, and checks that the message was about
// it: an incident of another headgate, or of a record that was lost, is not known.
// A nil answer means that all is well.
func (d slackDesk) pressed(ctx context.Context, w slack.Wish) (engine.Incident, *slack.Answer) {
	inc, err := d.incident(ctx, w.Incident)
	switch {
	case errors.Is(err, sqlite.ErrNoIncident):
		return inc, new(refused("no such incident is known to this headgate"))
	case err != nil:
		return inc, new(failed(err))
	case w.Seen != nil && (w.Seen.Seq > inc.Seq || w.Pool != inc.Key.Pool || w.Rule != inc.Key.Rule):
		return inc, new(refused("this headgate knows the incident otherwise than the message"))
	}
	return inc, nil
}

func over(inc engine.Incident) *slack.Answer {
	if inc.Open() {
		return nil
	}
	return new(refused("the incident is over since %s", clock(inc.Ended)))
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (d slackDesk) ack(ctx context.Context, w slack.Wish) slack.Answer {
	inc, no := d.pressed(ctx, w)
	if no == nil {
		no = over(inc)
	}
	if no == nil {
		no = d.worse(ctx, inc, w)
	}
	if no != nil {
		return *no
	}
	acked, err := d.orders().Ack(ctx, w.Incident, w.Actor, 0)
	switch {
	case errors.Is(err, engine.ErrNoIncident):
		return refused("the incident is over by now")
	case err != nil:
		return engineFailed(err)
	case acked.Won:
		return done(fmt.Sprintf("You have it, until %s. Reminders stop until then.", clock(acked.Until)))
	case acked.By == w.Actor:
		return refused("you have it already,%s until %s", d.ackedAt(ctx, inc.ID), clock(acked.Until))
	default:
		return refused("%s has it already,%s until %s", acked.By, d.ackedAt(ctx, inc.ID), clock(acked.Until))
	}
}

// worse says that an incident has risen since the message that was pressed on: who
// takes it on must have seen what it is. What is not recorded yet does not count.
func (d slackDesk) worse(ctx context.Context, inc engine.Incident, w slack.Wish) *slack.Answer {
	if w.Seen == nil || w.Seen.Seq == inc.Seq {
		return nil
	}
	story, err := d.a.store.Story(ctx, inc.ID)
	rose := func(e engine.Event) bool {
		return e.Seq > w.Seen.Seq && (e.Kind == engine.EventEscalated || e.Kind == engine.EventReopened)
	}
	if err != nil || !slices.ContainsFunc(story.Events, rose) {
		return nil
	}
	return new(refused("it has got worse since that message, and is a %s now", inc.Level))
}

// ackedAt says since when somebody has an incident, as far as that is recorded yet.
func (d slackDesk) ackedAt(ctx context.Context, id string) string {
	story, err := d.a.store.Story(ctx, id)
	if err != nil {
		return "" // who has it is known, and matters more
	}
	for _, e := range slices.Backward(story.Events) {
		if e.Kind == engine.EventAcked {
			return " since " + clock(e.At) + ","
		}
	}
	return ""
}

// engineFailed tells wishes that cannot be from troubles.
func engineFailed(err error) slack.Answer {
	for _, known := range []error{engine.ErrRefused, engine.ErrNoRule, engine.ErrTooMany, engine.ErrNoIncident, control.ErrCall} {
		if errors.Is(err, known) {
			return refused("%v", err)
		}
	}
	return failed(err)
}

func (d slackDesk) silence(ctx context.Context, w slack.Wish) slack.Answer {
	s := engine.Silence{Rule: w.Rule, By: w.Actor, Reason: w.Reason, Until: w.At.Add(w.For)}
	if w.Seen != nil {
		inc, no := d.pressed(ctx, w)
		if no == nil {
			no = over(inc)
		}
		if no != nil {
			return *no
		}
		s.Rule, s.Pool, s.Reason = inc.Key.Rule, inc.Key.Pool, "a button in Slack"
	}
	silenced, err := d.orders().Silence(ctx, s)
	if err != nil {
		return engineFailed(err)
	}
	s = silenced.Silence
	if !silenced.Won {
		return refused("%s has silenced %s already, until %s", s.By, s.Rule, clock(s.Until))
	}
	return done(fmt.Sprintf("%s is silenced until %s. Incidents open and end as before, and are recorded.", s.Rule, clock(s.Until)))
}

// mode rolls back or restores. A press counts only if the pool stands as the
// message said: in that mode, and since then.
func (d slackDesk) mode(ctx context.Context, w slack.Wish) slack.Answer {
	o := control.Order{
		Action: control.Action(w.Action), Pool: w.Pool, Actor: w.Actor, Via: control.ViaSlack, Reason: cut(w.Reason),
	}
	if w.Seen != nil {
		inc, no := d.pressed(ctx, w)
		if no == nil && w.Action == slack.Rollback {
			no = over(inc)
		}
		if no == nil {
			no = d.changed(w)
		}
		if no != nil {
			return *no
		}
		expected, err := admission.ParseMode(w.Seen.Mode)
		if err != nil {
			return refused("the message does not say in which mode the pool was")
		}
		o.Expected, o.Since, o.Reason = &expected, &w.Seen.Since, "a button of the incident "+inc.Key.Rule
	}
	res, err := control.Modes{Registry: d.a.actions}.Do(ctx, time.Now(), o)
	switch {
	case errors.Is(err, control.ErrUnexpected):
		if no := d.changed(w); no != nil {
			return *no
		}
		return refused("%v", err)
	case errors.Is(err, control.ErrNoPool):
		return refused("there is no pool %.63q; there are: %s", w.Pool, strings.Join(d.pools(), ", "))
	case err != nil:
		return failed(err)
	}
	return modeAnswer(res)
}

// changed says who was faster, if the pool does not stand as the message said.
func (d slackDesk) changed(w slack.Wish) *slack.Answer {
	s, ok := d.a.modes.Standing(w.Pool)
	switch {
	case !ok:
		return new(refused("there is no pool %.63q any more", w.Pool))
	case s.Mode.String() == w.Seen.Mode && s.Since.Equal(w.Seen.Since):
		return nil
	}
	return new(refused("pool %s is in %s since %s, set by %s%s", s.Pool, s.Mode, clock(s.Since), s.By, inBrackets(s.Reason)))
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func (d slackDesk) pools() []string {
	var names []string
	for _, p := range d.a.Pools() {
		names = append(names, p.Name)
	}
	return names
}

func modeAnswer(res control.Result) slack.Answer {
	var lines []string
	a := slack.Answer{Ending: slack.Refused}
	for _, c := range res.Changes {
		if c.From == c.To {
			lines = append(lines, fmt.Sprintf("Pool %s is in %s already.", c.Pool, c.To))
			continue
		}
		a.Ending = slack.Done
		lines = append(lines, fmt.Sprintf("Pool %s: from %s to %s. %d run and %d wait, and go on.", c.Pool, c.From, c.To, c.Running, c.Queued))
	}
	if a.Ending == slack.Done && !res.Recorded {
		lines = append(lines, "It is not recorded yet: a restart would forget it.")
	}
	a.Text = strings.Join(lines, "\n")
	return a
}

// runbook says where to read what to do. Where the button is a link, it has done
// so itself.
func (d slackDesk) runbook(ctx context.Context, w slack.Wish) slack.Answer {
	inc, no := d.pressed(ctx, w)
	if no != nil {
		return *no
	}
	if d.links && inc.Runbook != "" {
		return slack.Answer{Ending: slack.Done}
	}
	return done(fmt.Sprintf("Runbook %s: headgate incident show %s", inc.Runbook, inc.ID))
}

// drill begins a drill. What comes of it is told where drills are told.
func (d slackDesk) drill(ctx context.Context, w slack.Wish) slack.Answer {
	if d.a.drills == nil {
		return refused("this headgate has no drills")
	}
	var names []string
	for _, s := range d.a.specs() {
		if s.ID != w.Drill && s.Name != w.Drill {
			names = append(names, s.ID)
			continue
		}
		run, err := d.a.drills.runner.Start(ctx, drill.Request{Spec: s, Trigger: drill.ByHand, Actor: w.Actor, Reason: "a command in Slack"})
		if err != nil {
			return refused("%v", err)
		}
		return done("The drill " + s.ID + " has begun: headgate drill show " + run.ID)
	}
	if len(names) == 0 {
		return refused("there are no drills in the settings")
	}
	return refused("there is no drill %.63q; there are: %s", w.Drill, strings.Join(names, ", "))
}

// status says in a line for each how the pools and the open incidents stand.
func (d slackDesk) status(now time.Time) []string {
	var lines []string
	for _, p := range d.a.Status(now).Pools {
		line := fmt.Sprintf("Pool %s: %s since %s by %s%s; %d of %d in flight, %d wait", p.Name, p.Mode, clock(p.ModeSince), p.ModeBy,
			inBrackets(p.ModeReason), p.InFlight, p.Workers, p.QueueDepth)
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
	for _, i := range d.a.watch.engine.Incidents() {
		if i.Open() {
			open++
			lines = append(lines, fmt.Sprintf("Open, %s: %s%s, %s", i.Level, i.Key.Rule, inBrackets(i.Key.Pool), i.ID))
		}
	}
	if open == 0 {
		lines = append(lines, "No incident is open.")
	}
	return lines
}
