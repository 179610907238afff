package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Load reads the file at path over the defaults. env looks environment variables
// up, as [os.LookupEnv] does; nil means that there are none. A file that was read
// but is not right gives [Diagnostics]; nothing is returned beside an error.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return Parse(path, data, env)
}

// Parse reads data as the content of the file called name, which serves messages
// and as the start of relative ${file:PATH} references. Otherwise it is [Load].
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	c := Default()
	c.src = newSourceMap(name)
	l := newChecker(c.src)
	root := parseDocument(l, data)
	if len(l.diagnostics) > 0 {
		return nil, l.err()
	}
	if root != nil {
		c.src.positions[""] = position{root.Line, root.Column}
		d := &decoder{l, &expander{dir: filepath.Dir(name), env: env}}
		d.value(root, reflect.ValueOf(c).Elem(), "")
	}
	return l.finish(c)
}

// finish brings c into its final form and checks it.
func (l *checker) finish(c *Config) (*Config, error) {
	for i := range c.Pools {
		c.Pools[i].Upstream = strings.TrimRight(c.Pools[i].Upstream, "/")
	}
	for i := range c.Clients {
		c.Clients[i].KeySHA256 = strings.ToLower(c.Clients[i].KeySHA256)
	}
	l.validate(c)
	if err := l.err(); err != nil {
		return nil, err
	}
	return c, nil
}
