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

// notifiers are the destinations of incident notifications.
type notifiers struct {
	routes  alerts.Routes
	senders map[alerts.Destination]alerts.Notifier
	bot     *slack.Bot // nil without a token
}

// webhookChannel names the webhook among channels; no Slack channel has such an ID.
const webhookChannel = "webhook"

func (t notifiers) enabled() bool { return len(t.senders) > 0 }

// newNotifiers makes the senders out of the settings; way is how the bot's calls go,
// nil for the usual one. It sends nothing.
func newNotifiers(cfg *config.Config, way http.RoundTripper) (notifiers, error) {
	var t notifiers
	s := cfg.Slack
	if s.BotToken.Empty() && s.Webhook.Empty() {
		return t, nil
	}
	mention, err := slack.ParseMention(s.Mention.Page)
	if err != nil {
		return t, cfg.At("slack.mention.page", err)
	}
	t.senders = make(map[alerts.Destination]alerts.Notifier)
	if !s.Webhook.Empty() {
		hook, err := slack.NewWebhook(slack.WebhookOptions{URL: s.Webhook.Reveal(), PageMention: mention, ExternalURL: cfg.Admin.ExternalURL})
		if err != nil {
			return t, cfg.At("slack.webhook", err)
		}
		t.routes.Fallback = webhookChannel
		t.senders[alerts.ToFallback] = hook
	}
	if s.BotToken.Empty() {
		return t, nil
	}
	return t, t.addBot(cfg, mention, way)
}

func (t *notifiers) addBot(cfg *config.Config, mention slack.Mention, way http.RoundTripper) (err error) {
	c := cfg.Slack.Channels
	t.routes.Page, t.routes.Warn, t.routes.Drills = c.Page, c.Warn, c.Drills
	if c.Fallback != "" {
		t.routes.Fallback = c.Fallback
	}
	channels := make(map[alerts.Destination]string)
	for d, name := range map[alerts.Destination]string{
		alerts.ToPage: c.Page, alerts.ToWarn: c.Warn, alerts.ToDrills: c.Drills, alerts.ToFallback: c.Fallback,
	} {
		if name != "" {
			channels[d] = name
		}
	}
	t.bot, err = slack.New(slack.Options{
		Token: cfg.Slack.BotToken.Reveal(), Channels: channels, PageMention: mention,
		ExternalURL: cfg.Admin.ExternalURL, APIURL: cfg.Slack.APIURL, Buttons: buttonsEnabled(cfg.Slack), Transport: way,
	})
	if err != nil {
		return cfg.At("slack.channels", err)
	}
	for d := range channels {
		t.senders[d] = t.bot
	}
	return nil
}

// ErrNoBotToken means that the settings have no bot token.
var ErrNoBotToken = errors.New("slack.bot_token is not set: nothing to test")

// TestAlerts tries whether Slack takes what it would be sent.
func TestAlerts(ctx context.Context, cfg *config.Config) ([]slack.Check, error) {
	t, err := newNotifiers(cfg, nil)
	if err != nil {
		return nil, err
	}
	if t.bot == nil {
		return nil, ErrNoBotToken
	}
	defer t.bot.Close()
	checks := t.bot.Verify(ctx)
	if buttonsEnabled(cfg.Slack) {
		checks = append(checks, interactionOptions(cfg.Slack).Verify(ctx)...)
	}
	return checks, nil
}

// interactionStopTimeout is how long a stop waits for interactions that were accepted and for requests in flight: what
// is stopped afterwards, the record among it, needs its time too.
const interactionStopTimeout = 2 * time.Second

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
	if a.withoutMonitoring || a.sandbox.speed > 0 || a.notifiers.bot == nil || !buttonsEnabled(cfg.Slack) {
		return nil, nil
	}
	o := interactionOptions(cfg.Slack)
	o.Bot, o.Registerer, o.Log = a.notifiers.bot, a.metrics.registry, a.log.With("component", "slack")
	i, err := slack.NewInteractions(o)
	if setting := (*slack.SettingError)(nil); errors.As(err, &setting) {
		return nil, cfg.At("slack."+setting.Setting, setting.Err)
	}
	return i, err
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
		Control: a.record.control, Modes: a.record.modes, Audit: a.record.audit, Incidents: slackIncidents{a}, Pools: func(now time.Time) []control.PoolStatus { return a.Status(now).Pools },
		Links: a.current.config().Admin.ExternalURL != "", Log: a.log.With("component", "slack"), NewID: newID,
		Drills: a.current.drillSpecs,
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
	s.app.monitor.wakeDispatcher()
	return nil
}
