package config

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// reservedPool is the label of requests that no pool serves.
const reservedPool = "unrouted"

// alwaysForwarded are the paths that need no entry in endpoints.
var alwaysForwarded = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/models",
}

func (l *checker) checkPools(pools []Pool) {
	if len(pools) == 0 && l.ok("pools") {
		l.report("pools", "must have at least one pool, with a name and an upstream")
	}
	names, models := firstPaths{}, firstPaths{}
	for i, p := range pools {
		at := fmt.Sprintf("pools[%d]", i)
		l.checkPoolName(names, join(at, "name"), p.Name)
		l.checkUpstream(join(at, "upstream"), p.Upstream)
		l.checkSecret(join(at, "upstream_key"), p.UpstreamKey)
		l.checkModels(models, join(at, "models"), p.Models)
		l.checkObjectives(at, p)
		l.checkMemoryLimits(at, p.Limits)
		l.checkQueueLimit(at, p)
		if k := p.StreamKeepalive; k > 0 && k < time.Second {
			l.invalid(join(at, "stream_keepalive"), "must be 0s (off) or at least 1s", formatDuration(k))
		}
		l.checkEndpoints(join(at, "endpoints"), p.Endpoints)
	}
}

func (l *checker) checkPoolName(seen firstPaths, at, name string) {
	l.checkName(at, name)
	if name == reservedPool {
		l.invalid(at, "must be another name, this one stands for requests that no pool serves", quote(name))
	}
	l.checkUnique(seen, at, name, "a name")
}

// checkModels checks the patterns, and that no two pools claim the same one.
func (l *checker) checkModels(seen firstPaths, at string, models []string) {
	const most = 256
	if len(models) == 0 && l.ok(at) {
		l.report(at, `must name at least one model; ["*"] serves every model`)
	}
	for i, m := range models {
		p := fmt.Sprintf("%s[%d]", at, i)
		if m == "" || len(m) > most || !printable(m) || strings.ContainsFunc(m, unicode.IsSpace) {
			l.invalid(p, "must be a model's name or a pattern with *, without spaces, of 1 to 256 bytes", quote(m))
		}
		l.checkUnique(seen, p, m, "a model")
	}
}

// checkObjectives checks the promise, and that the rule can act before it is broken.
func (l *checker) checkObjectives(at string, p Pool) {
	if o := p.SLO.Objective; !(o > 0 && o < 1) { // so that NaN fails too
		l.invalid(join(at, "slo.objective"), "must be between 0 and 1, both excluded, such as 0.95", strconv.FormatFloat(o, 'g', -1, 64))
	}
	age, turnaround := join(at, "admission.max_queue_age"), join(at, "slo.turnaround")
	if p.Admission.MaxQueueAge < p.SLO.Turnaround || !l.ok(age, turnaround) {
		return
	}
	rule := "must be less than slo.turnaround, since a task of that age has broken the promise before anything is refused"
	if l.source.reference(turnaround) == "" {
		rule = "must be less than slo.turnaround (" + formatDuration(p.SLO.Turnaround) + "), since a task of that age has broken the promise before anything is refused"
	}
	l.invalid(age, rule, formatDuration(p.Admission.MaxQueueAge))
}

func (l *checker) checkMemoryLimits(at string, m Limits) {
	body, buffered := join(at, "limits.body"), join(at, "limits.buffered")
	if m.Body > m.Buffered && l.ok(body, buffered) {
		l.invalid(buffered, "must be at least limits.body, or the largest body would never be let in", m.Buffered.String())
	}
}

// checkQueueLimit checks that the hard bound leaves room for the queue of the policy.
func (l *checker) checkQueueLimit(at string, p Pool) {
	bound := join(at, "limits.passthrough_queue")
	most := p.Workers * p.Admission.DepthMultiple
	if p.Admission.Policy != "threshold" || p.Limits.PassthroughQueue > most ||
		!l.ok(bound, join(at, "workers"), join(at, "admission.depth_multiple")) {
		return
	}
	l.invalid(bound, fmt.Sprintf("must be above workers times admission.depth_multiple (%d), or it would refuse before the policy does", most),
		strconv.Itoa(p.Limits.PassthroughQueue))
}

func (l *checker) checkEndpoints(at string, endpoints []string) {
	seen := firstPaths{}
	for _, known := range alwaysForwarded {
		seen[known] = "the built-in list"
	}
	for i, e := range endpoints {
		p := fmt.Sprintf("%s[%d]", at, i)
		if !validEndpoint(e) {
			l.invalid(p, "must be a path below /v1/ out of letters, digits and ._~-/, without dot segments, double or trailing slashes, such as /v1/rerank", quote(e))
		}
		l.checkUnique(seen, p, e, "a path")
	}
}

func validEndpoint(e string) bool {
	const most = 256
	rest, below := strings.CutPrefix(e, "/v1/")
	return below && rest != "" && len(e) <= most && path.Clean(e) == e && strings.Trim(e, hostChars+"~/") == ""
}
