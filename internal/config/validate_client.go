package config

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

func (l *ledger) clients(clients []Client) {
	names, keys := firsts{}, firsts{}
	for i, c := range clients {
		name, key := fmt.Sprintf("clients[%d].name", i), fmt.Sprintf("clients[%d].key_sha256", i)
		l.name(name, c.Name)
		l.unique(names, name, c.Name, "a name")
		if c.KeySHA256 != "" && !validSHA256(c.KeySHA256) {
			l.hidden(key, "must be the SHA-256 of the key as 64 hexadecimal digits: printf %s KEY | sha256sum")
		}
		l.unique(keys, key, strings.ToLower(c.KeySHA256), "a key")
	}
}

func validSHA256(digest string) bool {
	raw, err := hex.DecodeString(digest)
	return err == nil && len(raw) == 32
}

// Warnings returns what is allowed but likely to be regretted, in the order of
// the settings.
func (c *Config) Warnings() []Problem {
	l := newLedger(c.src)
	l.placeholder("admin.token", c.Admin.Token)
	l.placeholder("slack.bot_token", c.Slack.BotToken)
	l.placeholder("slack.webhook", c.Slack.Webhook)
	l.placeholder("slack.app_token", c.Slack.AppToken)
	l.placeholder("slack.signing_secret", c.Slack.SigningSecret)
	l.placeholder("heartbeat.url", c.Heartbeat.URL)
	for i, p := range c.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		l.placeholder(join(at, "upstream_key"), p.UpstreamKey)
		u, err := url.Parse(p.Upstream)
		if err == nil && u.Scheme == "http" && !loopback(u.Hostname()) && !p.UpstreamKey.Empty() {
			l.refuse(join(at, "upstream"), "sends upstream_key over the network in clear text: use https, or a network that nobody else can listen to")
		}
	}
	return l.problems
}

// placeholder notices settings printed by Write that are used as they are.
func (l *ledger) placeholder(path string, s Secret) {
	if s.Reveal() == redacted {
		l.refuse(path, "is the placeholder "+redacted+", not a key: put the real one in its place")
	}
}
