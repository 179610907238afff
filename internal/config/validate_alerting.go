package config

import (
	"net/url"
	"strings"
	"time"
)

// Bounds of the settings that alerting needs.
const (
	longestInterval  = time.Minute
	leastSamples     = 3*day + 6*time.Hour
	leastHeartbeat   = 10 * time.Second
	mostChannelBytes = 80
)

// alerting checks what the engine and its messages need. Whether Slack takes it
// is for the room that talks to Slack.
func (l *ledger) alerting(c *Config) {
	l.httpURL("admin.external_url", c.Admin.ExternalURL)
	l.httpURL("slack.api_url", c.Slack.APIURL)
	l.httpURL("slack.webhook", c.Slack.Webhook.Reveal())
	l.httpURL("heartbeat.url", c.Heartbeat.URL.Reveal())
	l.secret("slack.bot_token", c.Slack.BotToken)
	for _, ch := range []struct{ path, name string }{
		{"slack.channels.page", c.Slack.Channels.Page},
		{"slack.channels.warn", c.Slack.Channels.Warn},
		{"slack.channels.drills", c.Slack.Channels.Drills},
		{"slack.channels.fallback", c.Slack.Channels.Fallback},
	} {
		if len(ch.name) > mostChannelBytes || !printable(ch.name) || strings.ContainsAny(ch.name, " #") {
			l.invalid(ch.path, "must be the ID of a channel, such as C0123456789", quote(ch.name))
		}
		if ch.name != "" && c.Slack.BotToken.Empty() {
			l.refuse(ch.path, "needs slack.bot_token: a webhook has its own channel")
		}
	}
	if !c.Slack.BotToken.Empty() && c.Slack.Channels.Page == "" && l.clean("slack.channels.page") {
		l.refuse("slack.channels.page", "must be set with slack.bot_token: the ID of a channel, such as C0123456789")
	}
	l.interactivity(c)
	if i := c.Rules.Interval; i > 0 && (i < time.Second || i > longestInterval) {
		l.invalid("rules.interval", "must be 1s to 1m", formatDuration(i))
	}
	if s := c.Retention.Samples; s > 0 && s < leastSamples {
		l.invalid("retention.samples", "must be at least 3d6h, the longest window of the built-in rules and what it is evaluated over", formatDuration(s))
	}
	if h := c.Heartbeat.Interval; h > 0 && h < leastHeartbeat {
		l.invalid("heartbeat.interval", "must be at least 10s", formatDuration(h))
	}
}

// httpURL checks a URL that may hold something secret, so it is never shown.
func (l *ledger) httpURL(path, text string) {
	if text == "" || text == redacted {
		return // what Write puts in a secret's place gives a warning
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		l.hidden(path, "must be an absolute http or https URL without user and password")
	}
}
