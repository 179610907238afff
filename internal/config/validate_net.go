package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/internal/strictyaml"
)

const (
	hostChars  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	listenRule = "must be host:port such as 127.0.0.1:8484, or :8484 for every interface"
)

// checkListeners checks both addresses, and that they do not collide.
func (l checker) checkListeners(c *Config) {
	l.checkListen("listen", c.Listen)
	l.checkListen("admin.listen", c.Admin.Listen)
	l.checkConflict("admin.listen", c.Admin.Listen, "listen", c.Listen)
}

// checkConflict refuses an address at which another setting listens already.
func (l checker) checkConflict(path, address, otherPath, other string) {
	if l.Valid(path, otherPath) && addressesConflict(address, other) {
		l.Refuse(path, "must differ from "+otherPath+", which takes the same port ("+strictyaml.Quote(other)+")",
			strictyaml.Quote(address))
	}
}

func (l checker) checkListen(path, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !validPort(port) || host != "" && !validHost(host) {
		l.Refuse(path, listenRule, strictyaml.Quote(address))
	}
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == port
}

// validHost accepts an IP address or what can be a host's name.
func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return strings.Trim(ip.Zone(), hostChars) == ""
	}
	const most = 253
	return host != "" && len(host) <= most && strings.Trim(host, hostChars) == "" &&
		!strings.HasPrefix(host, ".") && !strings.HasSuffix(host, ".") && !strings.Contains(host, "..")
}

// addressesConflict reports whether two valid addresses cannot both be listened on. Port 0
// takes a free one.
func addressesConflict(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	if portA != portB || portA == "0" {
		return false
	}
	return isWildcard(hostA) || isWildcard(hostB) || strings.EqualFold(hostA, hostB) ||
		isLoopback(hostA) && isLoopback(hostB) && (isHostname(hostA) || isHostname(hostB))
}

func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func isHostname(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil
}

// isLoopback reports whether only this host can reach host. Names other than
// localhost are not looked up, and count as reachable.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// checkUpstream checks a base URL. It may hold a password by mistake, so it is never
// shown.
func (l checker) checkUpstream(path, base string) {
	u, err := url.Parse(base)
	switch {
	case base == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		l.RefuseHidden(path, "must be an absolute http or https URL such as http://127.0.0.1:8080/v1")
	case u.User != nil:
		l.RefuseHidden(path, "must be a URL without user and password: a key belongs in upstream_key")
	case !validHost(u.Hostname()) || !validURLPort(u):
		l.RefuseHidden(path, "must be a URL with a host, and a port from 1 to 65535 if any")
	case strings.ContainsAny(base, "?#"):
		l.RefuseHidden(path, "must be a URL without query and fragment")
	case strings.HasSuffix(strings.TrimRight(base, "/"), chatPath):
		l.RefuseHidden(path, "must be the base URL, without "+chatPath)
	}
}

// checkUpstreamTLS checks that certificates are for an https upstream, and that a
// certificate has its key.
func (l checker) checkUpstreamTLS(at string, p Pool) {
	at = strictyaml.Join(at, "upstream_tls")
	c := p.UpstreamTLS
	switch {
	case c == (UpstreamTLS{}):
	case (c.CertFile == "") != (c.KeyFile == ""):
		l.Report(at, "must have cert_file and key_file together: a certificate is of no use without its key")
	case strings.HasPrefix(p.Upstream, "http://"):
		l.Report(at, "needs an https upstream: certificates are not used over http")
	}
}

func validURLPort(u *url.URL) bool {
	port := u.Port()
	return port == "" && !strings.HasSuffix(u.Host, ":") || port != "0" && validPort(port)
}

// checkOpenRelay refuses to lend the upstream's key to everybody who can reach us.
func (l checker) checkOpenRelay(c *Config) {
	if len(c.Clients) > 0 || !l.Valid("listen", "clients") {
		return
	}
	host, _, _ := net.SplitHostPort(c.Listen) // clean, so it parses
	if isLoopback(host) {
		return
	}
	for i, p := range c.Pools {
		if !p.UpstreamKey.Empty() {
			rule := "must be a loopback address such as 127.0.0.1:8484, or clients must be set: pools[%d] has an " +
				"upstream_key, and without clients everybody who can connect would use it (an open relay)"
			l.Refuse("listen", fmt.Sprintf(rule, i), strictyaml.Quote(c.Listen))
			return
		}
	}
}

// Bounds of the settings that alerting needs.
const (
	maxRulesInterval     = time.Minute
	minSampleRetention   = 3*day + 6*time.Hour
	minHeartbeatInterval = 10 * time.Second
	maxChannelBytes      = 80
)

// checkAlerting checks what the engine and its messages need. Whether Slack takes it
// belongs to the Slack package.
func (l checker) checkAlerting(c *Config) {
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
			l.Refuse(ch.path, "must be the ID of a channel, such as C0123456789", strictyaml.Quote(ch.name))
		}
		if ch.name != "" && c.Slack.BotToken.Empty() {
			l.Report(ch.path, "needs slack.bot_token: a webhook has its own channel")
		}
	}
	if !c.Slack.BotToken.Empty() && c.Slack.Channels.Page == "" && l.Valid("slack.channels.page") {
		l.Report("slack.channels.page", "must be set with slack.bot_token: the ID of a channel, such as C0123456789")
	}
	l.checkInteractivity(c)
	if i := c.Rules.Interval; i > 0 && (i < time.Second || i > maxRulesInterval) {
		l.Refuse("rules.interval", "must be 1s to 1m", format.Duration(i))
	}
	if s := c.Retention.Samples; s > 0 && s < minSampleRetention {
		l.Refuse("retention.samples",
			"must be at least 3d6h, the longest window of the built-in rules and what it is evaluated over",
			format.Duration(s))
	}
	if h := c.Heartbeat.Interval; h > 0 && h < minHeartbeatInterval {
		l.Refuse("heartbeat.interval", "must be at least 10s", format.Duration(h))
	}
}

// checkHTTPURL checks a URL that may hold something secret, so it is never shown.
func (l checker) checkHTTPURL(path, text string) {
	if text == "" || text == redacted {
		return // what Write puts in a secret's place gives a warning
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		l.RefuseHidden(path, "must be an absolute http or https URL without user and password")
	}
}

const maxAllowedUsers = 1000 // users in one list

var slackUser = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// checkInteractivity checks what buttons and commands in Slack need.
func (l checker) checkInteractivity(c *Config) {
	s := c.Slack
	l.checkSecret("slack.app_token", s.AppToken)
	l.checkSecret("slack.signing_secret", s.SigningSecret)
	if t := s.AppToken.Reveal(); t != "" && t != redacted && !strings.HasPrefix(t, "xapp-") {
		l.RefuseHidden("slack.app_token", "must begin with xapp- (bot tokens, xoxb-, belong in slack.bot_token)")
	}
	if !s.AppToken.Empty() && s.BotToken.Empty() && l.Valid("slack.app_token") {
		l.Report("slack.app_token", "needs slack.bot_token: buttons are on the bot's messages")
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
func (l checker) checkCallbackListener(c *Config) {
	s := c.Slack
	switch {
	case s.Listen == "" && s.SigningSecret.Empty():
		return
	case s.Listen == "":
		l.Report("slack.listen", "must be set with slack.signing_secret, such as 127.0.0.1:8486")
		return
	case s.SigningSecret.Empty():
		l.Report("slack.signing_secret", "must be set with slack.listen: it stands on the app's page Basic Information")
	case s.BotToken.Empty() && l.Valid("slack.listen"):
		l.Report("slack.listen", "needs slack.bot_token: buttons are on the bot's messages")
	}
	l.checkListen("slack.listen", s.Listen)
	l.checkConflict("slack.listen", s.Listen, "listen", c.Listen)
	l.checkConflict("slack.listen", s.Listen, "admin.listen", c.Admin.Listen)
}

// checkUsers checks a list of Slack users.
func (l checker) checkUsers(path string, ids []string) {
	if len(ids) > maxAllowedUsers {
		l.Report(path, fmt.Sprintf("must have at most %d users, not %d", maxAllowedUsers, len(ids)))
		return
	}
	l.checkEach(path, ids, slackUser.MatchString, "must be the ID of a user, such as U0123456789, since names can be "+
		"taken over: in Slack open the profile, then ⋮, Copy member ID")
}
