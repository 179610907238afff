package config

import (
	"errors"
	"net"
	"os"
	"reflect"
	"strings"
)

// HostNames are the names by which this headgate may be called, in lower case.
func (c *Config) HostNames() []string {
	names := []string{"localhost"}
	if name, err := os.Hostname(); err == nil {
		names = append(names, strings.ToLower(name))
	}
	for _, address := range []string{c.Listen, c.Admin.Listen} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			names = append(names, strings.ToLower(host))
		}
	}
	for _, host := range c.Hosts {
		names = append(names, strings.ToLower(host))
	}
	return names
}

// CheckReload refuses changes that need a restart, and a file that has lost settings of the running one.
func (c *Config) CheckReload(after *Config) error {
	if err := c.checkLost(after); err != nil {
		return err
	}
	restart := errors.New("cannot change while serving: restart instead")
	for _, fixed := range []struct {
		setting string
		value   func(*Config) any
	}{
		{"listen", func(c *Config) any { return c.Listen }},
		{"admin.listen", func(c *Config) any { return c.Admin.Listen }},
		{"admin.token", func(c *Config) any { return c.Admin.Token }},
		{"admin.anonymous_read", func(c *Config) any { return c.Admin.AnonymousRead }},
		{"client_timeouts", func(c *Config) any { return c.ClientTimeouts }},
		{"data_dir", func(c *Config) any { return c.DataDir }},
		{"slack", func(c *Config) any {
			s := c.Slack
			s.Allow = Allow{} // can change
			return s
		}},
		{"heartbeat", func(c *Config) any { return c.Heartbeat }},
		{"retention", func(c *Config) any { return c.Retention }},
		{"rules.interval", func(c *Config) any { return c.Rules.Interval }},
		{"log.format", func(c *Config) any { return c.Log.Format }},
	} {
		if !reflect.DeepEqual(fixed.value(c), fixed.value(after)) {
			return after.At(fixed.setting, restart)
		}
	}
	return nil
}
