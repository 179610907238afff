package config

import (
	"fmt"
	"regexp"
	"strings"
)

const maxAllowedUsers = 1000 // users in one list

var slackUser = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// checkInteractivity checks what buttons and commands in Slack need.
func (l *checker) checkInteractivity(c *Config) {
	s := c.Slack
	l.checkSecret("slack.app_token", s.AppToken)
	l.checkSecret("slack.signing_secret", s.SigningSecret)
	if t := s.AppToken.Reveal(); t != "" && t != redacted && !strings.HasPrefix(t, "xapp-") {
		l.invalidRedacted("slack.app_token", "must begin with xapp- (bot tokens, xoxb-, belong in slack.bot_token)")
	}
	if !s.AppToken.Empty() && s.BotToken.Empty() && l.ok("slack.app_token") {
		l.report("slack.app_token", "needs slack.bot_token: buttons are on the bot's messages")
	}
	l.checkCallbackListener(c)
	for _, list := range []struct {
		name string
		ids  []string
	}{
		{"rollback", s.Allow.Rollback}, {"restore", s.Allow.Restore}, {"drill", s.Allow.Drill},
		{"ack", s.Allow.Ack}, {"silence", s.Allow.Silence},
	} {
		l.checkUsers("slack.allow."+list.name, list.ids)
	}
}

// checkCallbackListener checks the listener for what Slack sends.
func (l *checker) checkCallbackListener(c *Config) {
	s := c.Slack
	switch {
	case s.Listen == "" && s.SigningSecret.Empty():
		return
	case s.Listen == "":
		l.report("slack.listen", "must be set with slack.signing_secret, such as 127.0.0.1:8486")
		return
	case s.SigningSecret.Empty():
		l.report("slack.signing_secret", "must be set with slack.listen: it stands on the app's page Basic Information")
	case s.BotToken.Empty() && l.ok("slack.listen"):
		l.report("slack.listen", "needs slack.bot_token: buttons are on the bot's messages")
	}
	l.checkListen("slack.listen", s.Listen)
	if !l.ok("slack.listen", "listen", "admin.listen") {
		return
	}
	for _, other := range []struct{ path, address string }{{"listen", c.Listen}, {"admin.listen", c.Admin.Listen}} {
		if addressesConflict(s.Listen, other.address) {
			l.invalid("slack.listen", "must differ from "+other.path+", which takes the same port ("+quote(other.address)+")", quote(s.Listen))
		}
	}
}

// checkUsers checks a list of Slack users.
func (l *checker) checkUsers(path string, ids []string) {
	if len(ids) > maxAllowedUsers {
		l.report(path, fmt.Sprintf("must have at most %d users, not %d", maxAllowedUsers, len(ids)))
		return
	}
	for i, id := range ids {
		if !slackUser.MatchString(id) {
			l.invalid(fmt.Sprintf("%s[%d]", path, i), "must be the ID of a user, such as U0123456789, since names can be taken over: "+
				"in Slack open the profile, then ⋮, Copy member ID", quote(id))
		}
	}
}
