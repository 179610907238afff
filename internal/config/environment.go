package config

import (
	"net/url"
	"strings"
)

// chatPath ends a full endpoint; what is before it is the base URL.
const chatPath = "/chat/completions"

// FromEnvironment returns the settings of a start without a file: the defaults,
// and of the environment MC_ENDPOINT (the upstream: a base URL, one that ends in
// /chat/completions, or only scheme and host, to which /v1 is added), MC_API_KEY
// (its key) and MC_MODEL (the only model served), and HEADGATE_TOKEN (the token of
// the admin API). Empty ones count as unset.
func FromEnvironment(env func(string) (string, bool)) (*Config, error) {
	c := Default()
	c.src = newSourceMap("")
	pool := &c.Pools[0]
	take := func(name, path string, use func(string)) {
		if env == nil {
			return
		}
		if value, _ := env(name); value != "" {
			c.src.references[path] = name
			use(value)
		}
	}
	take("MC_ENDPOINT", "pools[0].upstream", func(v string) { pool.Upstream = baseURL(v) })
	take("MC_API_KEY", "pools[0].upstream_key", func(v string) { pool.UpstreamKey = NewSecret(v) })
	take("MC_MODEL", "pools[0].models[0]", func(v string) { pool.Models = []string{v} })
	take("HEADGATE_TOKEN", "admin.token", func(v string) { c.Admin.Token = NewSecret(v) })
	return newChecker(c.src).finish(c)
}

// baseURL turns a full endpoint or a bare host into the base URL.
func baseURL(endpoint string) string {
	endpoint = strings.TrimRight(endpoint, "/")
	if base, full := strings.CutSuffix(endpoint, chatPath); full {
		return base
	}
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" && u.Path == "" && u.RawQuery == "" && u.Fragment == "" {
		return endpoint + "/v1"
	}
	return endpoint
}
