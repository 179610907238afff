package slack

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"headgate/alerts"
)

func TestNotifierRoutes(t *testing.T) {
	const token, hook = "xoxb-1", "https://hooks.example.com/services/x"
	for name, c := range map[string]struct {
		options NotifierOptions
		routes  alerts.Routes
		to      []alerts.Destination
	}{
		"none": {},
		"only the webhook": {
			NotifierOptions{Webhook: hook}, alerts.Routes{Fallback: webhookChannel}, []alerts.Destination{alerts.ToFallback},
		},
		"one channel": {
			NotifierOptions{Token: token, Channels: alerts.Routes{Page: "C1"}},
			alerts.Routes{Page: "C1"}, []alerts.Destination{alerts.ToPage},
		},
		"channels, and the webhook if they refuse": {
			NotifierOptions{Token: token, Webhook: hook, Channels: alerts.Routes{Page: "C1", Warn: "C2"}},
			alerts.Routes{Page: "C1", Warn: "C2", Fallback: webhookChannel},
			[]alerts.Destination{alerts.ToFallback, alerts.ToPage, alerts.ToWarn},
		},
		"channels, and another if they refuse": {
			NotifierOptions{Token: token, Webhook: hook, Channels: alerts.Routes{Page: "C1", Fallback: "C3"}},
			alerts.Routes{Page: "C1", Fallback: "C3"}, []alerts.Destination{alerts.ToFallback, alerts.ToPage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NewNotifiers(c.options)
			if err != nil {
				t.Fatal(err)
			}
			if to := slices.Sorted(maps.Keys(got.Senders)); got.Routes != c.routes || !slices.Equal(to, c.to) {
				t.Errorf("routes %+v to %v, want %+v to %v", got.Routes, to, c.routes, c.to)
			}
			if got.Enabled() != (c.to != nil) {
				t.Errorf("enabled %v", got.Enabled())
			}
		})
	}
}

func TestInvalidMentionNamesItsSetting(t *testing.T) {
	_, err := NewNotifiers(NotifierOptions{Webhook: "https://hooks.example.com/services/x", PageMention: "@here"})
	if s, ok := errors.AsType[*SettingError](err); !ok || s.Setting != "mention.page" {
		t.Errorf("error %v, want one about mention.page", err)
	}
}
