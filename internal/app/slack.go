package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"headgate/alerts"
	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/config"
	"headgate/runbooks/control"
	"headgate/runbooks/control/slackcmd"
	"headgate/runbooks/drill"
)

// newNotifiers builds the senders from the settings. Calls of the bot go through transport; nil: its default.
func newNotifiers(cfg *config.Config, transport http.RoundTripper) (slack.Notifiers, error) {
	s, c := cfg.Slack, cfg.Slack.Channels
	n, err := slack.NewNotifiers(slack.NotifierOptions{
		Token: s.BotToken.Reveal(), Webhook: s.Webhook.Reveal(), PageMention: s.Mention.Page,
		Channels:    alerts.Routes{Page: c.Page, Warn: c.Warn, Drills: c.Drills, Fallback: c.Fallback},
		ExternalURL: cfg.Admin.ExternalURL, APIURL: s.APIURL, Buttons: buttonsEnabled(s), Transport: transport,
	})
	return n, slackError(cfg, err)
}

// slackError adds the place of the setting to an error about one.
func slackError(cfg *config.Config, err error) error {
	if e, ok := errors.AsType[*slack.SettingError](err); ok {
		return cfg.At("slack."+e.Setting, e.Err)
	}
	return err
}

// ErrNoBotToken means that the settings have no bot token.
var ErrNoBotToken = errors.New("slack.bot_token is not set: nothing to test")

// TestAlerts checks that Slack accepts what would be sent there.
func TestAlerts(ctx context.Context, cfg *config.Config) ([]slack.Check, error) {
	n, err := newNotifiers(cfg, nil)
	if err != nil {
		return nil, err
	}
	if n.Bot == nil {
		return nil, ErrNoBotToken
	}
	defer n.Bot.Close()
	checks := n.Bot.Verify(ctx)
	if buttonsEnabled(cfg.Slack) {
		checks = append(checks, interactionOptions(cfg.Slack).Verify(ctx)...)
	}
	return checks, nil
}

// buttonsEnabled says whether button presses can come back: only then messages have buttons.
func buttonsEnabled(c config.Slack) bool {
	return !c.BotToken.Empty() && (!c.AppToken.Empty() || c.Listen != "" && !c.SigningSecret.Empty())
}

func interactionOptions(s config.Slack) slack.InteractionOptions {
	return slack.InteractionOptions{
		AppToken: s.AppToken.Reveal(), APIURL: s.APIURL, Listen: s.Listen, SigningSecret: s.SigningSecret.Reveal(),
		Allow: allowLists(s.Allow),
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
	if a.opts.withoutMonitoring || a.opts.sandbox.speed > 0 || a.notifiers.Bot == nil || !buttonsEnabled(cfg.Slack) {
		return nil, nil
	}
	o := interactionOptions(cfg.Slack)
	o.Bot, o.Registerer, o.Log = a.notifiers.Bot, a.metrics.registry, a.opts.component("slack")
	i, err := slack.NewInteractions(o)
	return i, slackError(cfg, err)
}

// startInteractions begins to accept interactions, once everything exists that they can change. They end with the monitor,
// before anything else of it.
func (a *App) startInteractions() error {
	if a.interactions == nil {
		return nil
	}
	a.monitor.teardown.Push("Slack interactions", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, interactionStopTimeout)
		defer cancel()
		return a.interactions.Stop(ctx)
	})
	c := slackcmd.Config{
		Control: a.record.control, Modes: a.record.modes, Audit: a.record.audit, Incidents: slackIncidents{a},
		Pools: func(now time.Time) []control.PoolStatus { return a.Status(now).Pools },
		Links: a.config().Admin.ExternalURL != "", Log: a.opts.component("slack"), NewID: newID,
		Drills: a.drillSpecs,
	}
	if a.drills != nil {
		c.StartDrill = func(ctx context.Context, s drill.Spec, actor, reason string) (drill.Run, error) {
			started, err := a.drills.Start(ctx, drill.StartRequest{Name: s.ID, Actor: actor, Reason: reason})
			return drill.Run{ID: started.Run}, err
		}
	}
	return a.interactions.Start(slackcmd.New(c))
}

// slackIncidents are the recorded incidents, for commands from Slack.
type slackIncidents struct{ app *App }

// History returns an incident and its events.
func (s slackIncidents) History(ctx context.Context, id string) (engine.Incident, []engine.Event, error) {
	h, err := s.app.record.store.IncidentHistory(ctx, id)
	return h.Incident, h.Events, err
}

// Append records an event through the engine's journal, so that its deliveries are planned in the same transaction.
func (s slackIncidents) Append(ctx context.Context, inc engine.Incident, e engine.Event) error {
	journal := s.app.record.store.EngineJournal(s.app.monitor.planner)
	if err := journal.Save(ctx, engine.Batch{Incidents: []engine.Incident{inc}, Events: []engine.Event{e}}); err != nil {
		return err
	}
	s.app.monitor.dispatcher.Wake()
	return nil
}
