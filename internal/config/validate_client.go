package config

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

func (l *checker) checkClients(clients []Client) {
	names, keys := firstPaths{}, firstPaths{}
	for i, c := range clients {
		name, key := fmt.Sprintf("clients[%d].name", i), fmt.Sprintf("clients[%d].key_sha256", i)
		l.checkName(name, c.Name)
		l.checkUnique(names, name, c.Name, "a name")
		if c.KeySHA256 != "" && !isSHA256(c.KeySHA256) {
			l.invalidRedacted(key, "must be the SHA-256 of the key as 64 hexadecimal digits: printf %s KEY | sha256sum")
		}
		l.checkUnique(keys, key, strings.ToLower(c.KeySHA256), "a key")
	}
}

func isSHA256(digest string) bool {
	raw, err := hex.DecodeString(digest)
	return err == nil && len(raw) == 32
}

// Warnings returns what is allowed but likely to be regretted, in the order of
// the settings.
func (c *Config) Warnings() []Diagnostic {
	l := newChecker(c.src)
	l.warnPlaceholder("admin.token", c.Admin.Token)
	l.warnPlaceholder("slack.bot_token", c.Slack.BotToken)
	l.warnPlaceholder("slack.webhook", c.Slack.Webhook)
	l.warnPlaceholder("slack.app_token", c.Slack.AppToken)
	l.warnPlaceholder("slack.signing_secret", c.Slack.SigningSecret)
	l.warnPlaceholder("heartbeat.url", c.Heartbeat.URL)
	for i, p := range c.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		l.warnPlaceholder(join(at, "upstream_key"), p.UpstreamKey)
		u, err := url.Parse(p.Upstream)
		if err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) && !p.UpstreamKey.Empty() {
			l.report(join(at, "upstream"), "sends upstream_key over the network in clear text: use https, or a network that nobody else can listen to")
		}
	}
	return l.diagnostics
}

// warnPlaceholder notices settings printed by Write that are used as they are.
func (l *checker) warnPlaceholder(path string, s Secret) {
	if s.Reveal() == redacted {
		l.report(path, "is the placeholder "+redacted+", not a key: put the real one in its place")
	}
}
