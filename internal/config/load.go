package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"headgate/internal/strictyaml"
)

// unimplemented holds settings that are designed but do nothing yet. They are refused by name, since an option without
// effect would be a lie. Remove an entry when its setting arrives.
var unimplemented = map[string]bool{
	"clients[].share":                   true,
	"pools[].admission.policy=deadline": true,
}

// Load reads the file at path over the defaults. env looks environment variables up, as [os.LookupEnv] does; nil means
// that there are none. A file that was read but is not right gives [strictyaml.Diagnostics]; nothing is returned beside
// an error.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return Parse(path, data, env)
}

// Parse reads data as the content of the file called name, which serves messages and as the start of relative
// ${file:PATH} references. Otherwise it is [Load].
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	c := Default()
	c.src = *strictyaml.NewSource(name)
	l := c.checker()
	l.ExpandReferences(filepath.Dir(name), env)
	root := l.Document(data, "")
	if err := l.Err(); err != nil {
		return nil, err
	}
	l.Decode(root, c)
	return l.finish(c)
}

// chatPath ends a full endpoint; what is before it is the base URL.
const chatPath = "/chat/completions"

// FromEnvironment returns the settings of a start without a file: the defaults, and of the environment MC_ENDPOINT (the
// upstream: a base URL, one that ends in /chat/completions, or only scheme and host, to which /v1 is added), MC_API_KEY
// (its key), MC_MODEL (the only model served) and HEADGATE_TOKEN (the token of the admin API). Empty ones count as
// unset.
func FromEnvironment(env func(string) (string, bool)) (*Config, error) {
	c := Default()
	c.src = *strictyaml.NewSource("")
	pool := &c.Pools[0]
	take := func(name, path string, use func(string)) {
		if env == nil {
			return
		}
		if value, _ := env(name); value != "" {
			c.src.SetReference(path, name)
			use(value)
		}
	}
	take("MC_ENDPOINT", "pools[0].upstream", func(v string) { pool.Upstream = baseURL(v) })
	take("MC_API_KEY", "pools[0].upstream_key", func(v string) { pool.UpstreamKey = NewSecret(v) })
	take("MC_MODEL", "pools[0].models[0]", func(v string) { pool.Models = []string{v} })
	take("HEADGATE_TOKEN", "admin.token", func(v string) { c.Admin.Token = NewSecret(v) })
	return c.checker().finish(c)
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

const maxPEM = 1 << 20 // bytes of one file with certificates or a key

// ReadFile reads a file that a setting names, empty for none. A relative path begins at the settings file.
func (c *Config) ReadFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(c.src.File()), path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPEM {
		return "", fmt.Errorf("%s is not a regular file of at most 1 MiB", path)
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

// checker checks the settings of one Config.
type checker struct{ *strictyaml.Decoder }

func (c *Config) checker() checker {
	d := c.src.Decoder()
	d.Unimplemented = unimplemented
	return checker{d}
}

// finish brings c into its final form and checks it.
func (l checker) finish(c *Config) (*Config, error) {
	for i := range c.Pools {
		c.Pools[i].Upstream = strings.TrimRight(c.Pools[i].Upstream, "/")
	}
	for i := range c.Clients {
		c.Clients[i].KeySHA256 = strings.ToLower(c.Clients[i].KeySHA256)
	}
	l.validate(c)
	if err := l.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// At returns err as a [strictyaml.Diagnostic] at the place of a setting, or of the nearest one above it if it was left
// to its default. It lets another package refuse a setting with its place. Without a file, only the path is known. A
// nil err gives nil.
func (c *Config) At(path string, err error) error { return c.src.At(path, err) }
