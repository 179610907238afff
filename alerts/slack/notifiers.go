package slack

import (
	"cmp"
	"maps"
	"net/http"

	"headgate/alerts"
)

// webhookChannel names the webhook among channels; no Slack channel has such an ID.
const webhookChannel = "webhook"

// NotifierOptions configure Notifiers: a bot, a webhook for what the bot cannot deliver, both, or neither.
type NotifierOptions struct {
	Token       string        // of the bot, xoxb-…; a secret that is never shown
	Channels    alerts.Routes // of the bot, by ID
	Webhook     string        // URL; a secret that is never shown
	PageMention string        // for pages, as ParseMention reads it
	ExternalURL string        // as in Options
	APIURL      string        // as in Options
	Buttons     bool          // as in Options

	Transport http.RoundTripper // of the bot; nil: its default
}

// Notifiers send to each destination for which there is a channel. The zero value sends nothing.
type Notifiers struct {
	Routes  alerts.Routes
	Senders map[alerts.Destination]alerts.Notifier
	Bot     *Bot // nil without a token
}

// Enabled says whether there is any destination.
func (n Notifiers) Enabled() bool { return len(n.Senders) > 0 }

// NewNotifiers builds the bot and the webhook. It sends nothing. An error about a setting is a *SettingError.
func NewNotifiers(o NotifierOptions) (n Notifiers, err error) {
	if o.Token == "" && o.Webhook == "" {
		return n, nil
	}
	mention, err := ParseMention(o.PageMention)
	if err != nil {
		return n, &SettingError{"mention.page", err}
	}
	n.Senders = make(map[alerts.Destination]alerts.Notifier)
	if o.Webhook != "" {
		hook, err := NewWebhook(WebhookOptions{URL: o.Webhook, PageMention: mention, ExternalURL: o.ExternalURL})
		if err != nil {
			return n, &SettingError{"webhook", err}
		}
		n.Routes.Fallback, n.Senders[alerts.ToFallback] = webhookChannel, hook
	}
	if o.Token == "" {
		return n, nil
	}
	c := o.Channels
	n.Routes = alerts.Routes{
		Page: c.Page, Warn: c.Warn, Drills: c.Drills, Fallback: cmp.Or(c.Fallback, n.Routes.Fallback),
	}
	channels := map[alerts.Destination]string{
		alerts.ToPage: c.Page, alerts.ToWarn: c.Warn, alerts.ToDrills: c.Drills, alerts.ToFallback: c.Fallback,
	}
	maps.DeleteFunc(channels, func(_ alerts.Destination, id string) bool { return id == "" })
	n.Bot, err = New(Options{
		Token: o.Token, Channels: channels, PageMention: mention, ExternalURL: o.ExternalURL, APIURL: o.APIURL,
		Buttons: o.Buttons, Transport: o.Transport,
	})
	if err != nil {
		return n, &SettingError{"channels", err}
	}
	for d := range channels {
		n.Senders[d] = n.Bot
	}
	return n, nil
}
