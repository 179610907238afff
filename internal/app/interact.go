package app

import (
	"context"
	"errors"
	"time"

	"headgate/alerts/slack"
	"headgate/internal/config"
	"headgate/runbooks/control"
)

// interactionStopTimeout is how long a stop waits for interactions that were accepted and for requests in flight: what is
// stopped afterwards, the record among it, needs its time too.
const interactionStopTimeout = 2 * time.Second

// buttonsEnabled says whether button presses can come back: only then messages have buttons.
func buttonsEnabled(c config.Slack) bool {
	return !c.BotToken.Empty() && (!c.AppToken.Empty() || c.Listen != "" && !c.SigningSecret.Empty())
}

func interactionOptions(s config.Slack) slack.InteractionOptions {
	return slack.InteractionOptions{
		AppToken: s.AppToken.Reveal(), APIURL: s.APIURL, Listen: s.Listen, SigningSecret: s.SigningSecret.Reveal(), Allow: allowLists(s.Allow),
	}
}

func allowLists(c config.Allow) slack.AllowList {
	return slack.AllowList{
		slack.Rollback: c.Rollback, slack.Restore: c.Restore, slack.Drill: c.Drill, slack.Ack: c.Ack, slack.Silence: c.Silence,
	}
}

// newInteractions builds what receives button presses and commands from Slack; nil if the settings have none. It opens
// nothing.
func (a *App) newInteractions(cfg *config.Config) (*slack.Interactions, error) {
	if a.withoutMonitoring || a.sandbox.speed > 0 || a.notifiers.bot == nil || !buttonsEnabled(cfg.Slack) {
		return nil, nil
	}
	o := interactionOptions(cfg.Slack)
	o.Bot, o.Executor = a.notifiers.bot, &slackExecutor{app: a, links: cfg.Admin.ExternalURL != ""}
	o.Registerer, o.Log = a.registry, a.log.With("component", "slack")
	i, err := slack.NewInteractions(o)
	if setting := (*slack.SettingError)(nil); errors.As(err, &setting) {
		return nil, cfg.At("slack."+setting.Setting, setting.Err)
	}
	return i, err
}

// startInteractions begins to accept interactions, once everything exists that they can change. They stop before that.
func (a *App) startInteractions(w *monitor) error {
	if a.interactions == nil {
		return nil
	}
	w.onStop(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, interactionStopTimeout)
		defer cancel()
		return a.interactions.Stop(ctx)
	})
	return a.interactions.Start()
}

// SlackAddr returns the address for requests from Slack; empty: none. Call it after Start.
func (a *App) SlackAddr() string {
	if a.interactions == nil {
		return ""
	}
	return a.interactions.Addr()
}

// AppendAudit implements slack.Executor.
func (d *slackExecutor) AppendAudit(_ context.Context, e slack.AuditEntry) {
	entry := control.AuditEntry{
		At: time.Now(), Kind: control.KindInteraction, Action: string(e.Action), Result: control.AuditResult(e.Result), Pool: e.Pool,
		Subject: e.Incident, Actor: e.Actor, Via: control.ViaSlack, Reason: e.Reason, Inputs: e.Inputs,
	}
	if e.Forged {
		entry.Kind = control.KindAccess
	}
	if entry.Action == "" {
		entry.Action = "callback"
	}
	if entry.Actor == "" {
		entry.Actor = "unknown"
	}
	d.app.auditor.Append(entry)
}
