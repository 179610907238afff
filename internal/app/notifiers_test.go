package app

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"headgate/alerts"
	"headgate/internal/config"
)

func TestNotifierRoutes(t *testing.T) {
	token, hook := config.NewSecret("xoxb-1"), config.NewSecret("https://hooks.example.com/services/x")
	for name, c := range map[string]struct {
		slack  config.Slack
		routes alerts.Routes
		to     []alerts.Destination
	}{
		"nobody":           {config.Slack{}, alerts.Routes{}, nil},
		"only the webhook": {config.Slack{Webhook: hook}, alerts.Routes{Fallback: webhookChannel}, []alerts.Destination{alerts.ToFallback}},
		"one channel": {
			config.Slack{BotToken: token, Channels: config.Channels{Page: "C1"}},
			alerts.Routes{Page: "C1"}, []alerts.Destination{alerts.ToPage},
		},
		"channels, and the webhook if they refuse": {
			config.Slack{BotToken: token, Webhook: hook, Channels: config.Channels{Page: "C1", Warn: "C2"}},
			alerts.Routes{Page: "C1", Warn: "C2", Fallback: webhookChannel},
			[]alerts.Destination{alerts.ToFallback, alerts.ToPage, alerts.ToWarn},
		},
		"channels, and another if they refuse": {
			config.Slack{BotToken: token, Webhook: hook, Channels: config.Channels{Page: "C1", Fallback: "C3"}},
			alerts.Routes{Page: "C1", Fallback: "C3"}, []alerts.Destination{alerts.ToFallback, alerts.ToPage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			c.slack.APIURL = cfg.Slack.APIURL
			cfg.Slack = c.slack
			got, err := newNotifiers(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			if to := slices.Sorted(maps.Keys(got.senders)); got.routes != c.routes || !slices.Equal(to, c.to) {
				t.Errorf("routes %+v to %v, want %+v to %v", got.routes, to, c.routes, c.to)
			}
			if got.enabled() != (c.to != nil) {
				t.Errorf("anybody %v", got.enabled())
			}
		})
	}
}

func TestInvalidMentionRefused(t *testing.T) {
	cfg := config.Default()
	cfg.Slack.Webhook = config.NewSecret("https://hooks.example.com/services/x")
	cfg.Slack.Mention.Page = "@here"
	_, err := newNotifiers(cfg, nil)
	if err == nil || !strings.Contains(err.Error(), "slack.mention.page") || !strings.Contains(err.Error(), "<!here>") {
		t.Errorf("error %v, want the place and what would be right", err)
	}
}
