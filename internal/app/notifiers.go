package app

import (
	"context"
	"errors"
	"net/http"

	"headgate/alerts"
	"headgate/alerts/slack"
	"headgate/internal/config"
)

// notifiers is who is told about incidents, and how.
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

// ErrNoBotToken says that the settings name nobody to tell.
var ErrNoBotToken = errors.New("slack.bot_token is not set: there is nothing to test")

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
