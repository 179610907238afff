package config

import (
	"net/url"
	"strings"
	"time"
)

// Bounds of the settings that alerting needs.
const (
	maxRulesInterval     = time.Minute
	minSampleRetention   = 3*day + 6*time.Hour
	minHeartbeatInterval = 10 * time.Second
	maxChannelBytes      = 80
)

// checkAlerting checks what the engine and its messages need. Whether Slack takes it
// is for the room that talks to Slack.
func (l *checker) checkAlerting(c *Config) {
	l.checkHTTPURL("admin.external_url", c.Admin.ExternalURL)
	l.checkHTTPURL("slack.api_url", c.Slack.APIURL)
	l.checkHTTPURL("slack.webhook", c.Slack.Webhook.Reveal())
	l.checkHTTPURL("heartbeat.url", c.Heartbeat.URL.Reveal())
	l.checkSecret("slack.bot_token", c.Slack.BotToken)
	for _, ch := range []struct{ path, name string }{
		{"slack.channels.page", c.Slack.Channels.Page},
		{"slack.channels.warn", c.Slack.Channels.Warn},
		{"slack.channels.drills", c.Slack.Channels.Drills},
		{"slack.channels.fallback", c.Slack.Channels.Fallback},
	} {
		if len(ch.name) > maxChannelBytes || !printable(ch.name) || strings.ContainsAny(ch.name, " #") {
			l.invalid(ch.path, "must be the ID of a channel, such as C0123456789", quote(ch.name))
		}
		if ch.name != "" && c.Slack.BotToken.Empty() {
			l.report(ch.path, "needs slack.bot_token: a webhook has its own channel")
		}
	}
	if !c.Slack.BotToken.Empty() && c.Slack.Channels.Page == "" && l.ok("slack.channels.page") {
		l.report("slack.channels.page", "must be set with slack.bot_token: the ID of a channel, such as C0123456789")
	}
	l.checkInteractivity(c)
	if i := c.Rules.Interval; i > 0 && (i < time.Second || i > maxRulesInterval) {
		l.invalid("rules.interval", "must be 1s to 1m", formatDuration(i))
	}
	if s := c.Retention.Samples; s > 0 && s < minSampleRetention {
		l.invalid("retention.samples", "must be at least 3d6h, the longest window of the built-in rules and what it is evaluated over", formatDuration(s))
	}
	if h := c.Heartbeat.Interval; h > 0 && h < minHeartbeatInterval {
		l.invalid("heartbeat.interval", "must be at least 10s", formatDuration(h))
	}
}

// checkHTTPURL checks a URL that may hold something secret, so it is never shown.
func (l *checker) checkHTTPURL(path, text string) {
	if text == "" || text == redacted {
		return // what Write puts in a secret's place gives a warning
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		l.invalidRedacted(path, "must be an absolute http or https URL without user and password")
	}
}
