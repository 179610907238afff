package config

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"headgate/internal/format"
	"headgate/internal/strictyaml"
)

// Validate checks every setting and returns [strictyaml.Diagnostics], or nil. Settings that
// were loaded have passed it; it is for those that code has put together.
func (c *Config) Validate() error {
	l := c.checker()
	l.validate(c)
	return l.Err()
}

func (l checker) validate(c *Config) {
	l.CheckTags(c)
	l.checkListeners(c)
	l.checkSecret("admin.token", c.Admin.Token)
	l.checkEach("hosts", c.Hosts, func(h string) bool { return validHost(strings.TrimPrefix(h, "*.")) },
		"must be a host name or address without port, such as gate.example.com, or *.example.com for all names below it")
	if c.DataDir == "" || !printable(c.DataDir) {
		l.Refuse("data_dir", "must be the path of a directory", strictyaml.Quote(c.DataDir))
	}
	l.checkPools(c.Pools)
	l.checkClients(c.Clients)
	l.checkOpenRelay(c)
	l.checkAlerting(c)
}

// checkSecret checks text that is to be sent in a header.
func (l checker) checkSecret(path string, s Secret) {
	for _, r := range s.Reveal() {
		if r <= ' ' || r > '~' {
			l.RefuseHidden(path, "must be visible ASCII characters without spaces or line ends")
			return
		}
	}
}

// checkName checks a name that becomes a label or a log field.
func (l checker) checkName(path, name string) {
	const most = 63
	strange := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	if name != "" && (strange || len(name) > most) {
		l.Refuse(path, "must be 1 to 63 characters out of a-z, 0-9 and -", strictyaml.Quote(name))
	}
}

func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// firstPaths finds what must be unique but is not.
type firstPaths map[string]string

// checkUnique refuses text that another path has already.
func (l checker) checkUnique(seen firstPaths, path, text, what string) {
	before, repeated := seen[text]
	if !repeated {
		seen[text] = path
	} else if text != "" && l.Valid(path) {
		l.Reportf(path, "must be %s used only once, but %s has the same%s", what, before, l.DefaultSuffix(path))
	}
}

func (l checker) checkUniqueItems(seen firstPaths, path string, items []string, what string) {
	for i, item := range items {
		l.checkUnique(seen, fmt.Sprintf("%s[%d]", path, i), item, what)
	}
}

// checkEach refuses the items of a list that are not valid.
func (l checker) checkEach(path string, items []string, valid func(string) bool, rule string) {
	for i, item := range items {
		if !valid(item) {
			l.Refuse(fmt.Sprintf("%s[%d]", path, i), rule, strictyaml.Quote(item))
		}
	}
}

func (l checker) checkClients(clients []Client) {
	names, keys := firstPaths{}, firstPaths{}
	for i, c := range clients {
		name, key := fmt.Sprintf("clients[%d].name", i), fmt.Sprintf("clients[%d].key_sha256", i)
		l.checkName(name, c.Name)
		l.checkUnique(names, name, c.Name, "a name")
		if c.KeySHA256 != "" && !isSHA256(c.KeySHA256) {
			l.RefuseHidden(key, "must be the SHA-256 of the key as 64 hexadecimal digits: printf %s KEY | sha256sum")
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
func (c *Config) Warnings() strictyaml.Diagnostics {
	l := c.checker()
	l.warnPlaceholder("admin.token", c.Admin.Token)
	l.warnPlaceholder("slack.bot_token", c.Slack.BotToken)
	l.warnPlaceholder("slack.webhook", c.Slack.Webhook)
	l.warnPlaceholder("slack.app_token", c.Slack.AppToken)
	l.warnPlaceholder("slack.signing_secret", c.Slack.SigningSecret)
	l.warnPlaceholder("heartbeat.url", c.Heartbeat.URL)
	for i, p := range c.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		l.warnPlaceholder(strictyaml.Join(at, "upstream_key"), p.UpstreamKey)
		u, err := url.Parse(p.Upstream)
		if err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) && !p.UpstreamKey.Empty() {
			l.Report(strictyaml.Join(at, "upstream"),
				"sends upstream_key over the network in clear text: use https or a private network")
		}
		if err == nil && !apiVersion.MatchString(u.Path) {
			l.Report(strictyaml.Join(at, "upstream"), "has no version such as /v1 at its end: POST "+chatPathV1+
				" will ask for "+chatURL(p.Upstream))
		}
	}
	return l.Diagnostics()
}

const chatPathV1 = "/v1" + chatPath

// apiVersion finds the part of a base URL's path that most endpoints have, such as /v1 or /v1beta.
var apiVersion = regexp.MustCompile(`/v[0-9][^/]*(/|$)`)

// chatURL returns what a chat completion asks the upstream for.
func chatURL(base string) string { return strings.TrimRight(base, "/") + chatPath }

// Forwarding says for each pool which URL a chat completion asks for, one line each.
func (c *Config) Forwarding() []string {
	lines := make([]string, 0, len(c.Pools))
	for _, p := range c.Pools {
		lines = append(lines, "pool "+p.Name+": POST "+chatPathV1+" asks for "+chatURL(p.Upstream))
	}
	return lines
}

// warnPlaceholder notices settings printed by Write that are used as they are.
func (l checker) warnPlaceholder(path string, s Secret) {
	if s.Reveal() == redacted {
		l.Report(path, "is the placeholder "+redacted+", not a key: put the real one in its place")
	}
}

// reservedPool is the label of requests that no pool serves.
const reservedPool = "unrouted"

func (l checker) checkPools(pools []Pool) {
	if len(pools) == 0 && l.Valid("pools") {
		l.Report("pools", "must have at least one pool, with a name and an upstream")
	}
	names, models := firstPaths{}, firstPaths{}
	for i, p := range pools {
		at := fmt.Sprintf("pools[%d]", i)
		l.checkPoolName(names, strictyaml.Join(at, "name"), p.Name)
		l.checkUpstream(strictyaml.Join(at, "upstream"), p.Upstream)
		l.checkSecret(strictyaml.Join(at, "upstream_key"), p.UpstreamKey)
		l.checkUpstreamTLS(at, p)
		l.checkModels(models, strictyaml.Join(at, "models"), p.Models)
		l.checkObjectives(at, p)
		l.checkMemoryLimits(at, p.Limits)
		l.checkQueueLimit(at, p)
		if k := p.StreamKeepalive; k > 0 && k < time.Second {
			l.Refuse(strictyaml.Join(at, "stream_keepalive"), "must be 0s (off) or at least 1s", format.Duration(k))
		}
		l.checkEndpoints(strictyaml.Join(at, "endpoints"), p.Endpoints)
	}
}

func (l checker) checkPoolName(seen firstPaths, at, name string) {
	l.checkName(at, name)
	if name == reservedPool {
		l.Refuse(at, "must be another name, this one stands for requests that no pool serves", strictyaml.Quote(name))
	}
	l.checkUnique(seen, at, name, "a name")
}

// checkModels checks the patterns, and that no two pools claim the same one.
func (l checker) checkModels(seen firstPaths, at string, models []string) {
	const most = 256
	if len(models) == 0 && l.Valid(at) {
		l.Report(at, `must name at least one model; ["*"] serves every model`)
	}
	valid := func(m string) bool {
		return m != "" && len(m) <= most && printable(m) && !strings.ContainsFunc(m, unicode.IsSpace)
	}
	l.checkEach(at, models, valid, "must be a model's name or a pattern with *, without spaces, of 1 to 256 bytes")
	l.checkUniqueItems(seen, at, models, "a model")
}

// checkObjectives checks the promise, and that the rule can act before it is broken.
func (l checker) checkObjectives(at string, p Pool) {
	if o := p.SLO.Objective; !(o > 0 && o < 1) { // so that NaN fails too
		l.Refuse(strictyaml.Join(at, "slo.objective"), "must be between 0 and 1, both excluded, such as 0.95",
			strconv.FormatFloat(o, 'g', -1, 64))
	}
	age, turnaround := strictyaml.Join(at, "admission.max_queue_age"), strictyaml.Join(at, "slo.turnaround")
	if p.Admission.MaxQueueAge < p.SLO.Turnaround || !l.Valid(age, turnaround) {
		return
	}
	limit := "slo.turnaround"
	if l.Reference(turnaround) == "" {
		limit += " (" + format.Duration(p.SLO.Turnaround) + ")"
	}
	rule := "must be less than " + limit + ", since a task of that age has broken the promise before anything is refused"
	l.Refuse(age, rule, format.Duration(p.Admission.MaxQueueAge))
}

func (l checker) checkMemoryLimits(at string, m Limits) {
	body, buffered := strictyaml.Join(at, "limits.body"), strictyaml.Join(at, "limits.buffered")
	if m.Body > m.Buffered && l.Valid(body, buffered) {
		l.Refuse(buffered, "must be at least limits.body, or the largest body would never be admitted",
			m.Buffered.String())
	}
}

// checkQueueLimit checks that the hard bound is not below the queue of the policy.
func (l checker) checkQueueLimit(at string, p Pool) {
	bound := strictyaml.Join(at, "limits.passthrough_queue")
	most := p.Workers * p.Admission.DepthMultiple
	if p.Admission.Policy != "threshold" || p.Limits.PassthroughQueue > most ||
		!l.Valid(bound, strictyaml.Join(at, "workers"), strictyaml.Join(at, "admission.depth_multiple")) {
		return
	}
	rule := "must be above workers times admission.depth_multiple (%d), or it would refuse before the policy does"
	l.Refuse(bound, fmt.Sprintf(rule, most), strconv.Itoa(p.Limits.PassthroughQueue))
}
