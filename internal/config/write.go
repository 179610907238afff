package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpproxy"

	"headgate/internal/format"
	"headgate/internal/strictyaml"
)

const fileHeader = `# The effective settings of headgate, with every default spelled out.
# Secrets read ` + redacted + `: put the real ones, or references such as
# ${NAME}, in their place before you use this as a file.

`

// Write writes all settings as YAML that loads again, in one piece. Secrets are
// replaced by [redacted]; what was filled in from references into other settings
// is written as the text it gave.
func (c *Config) Write(w io.Writer) error {
	var out bytes.Buffer
	out.WriteString(fileHeader)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(encodeNode(reflect.ValueOf(c).Elem())), encoder.Close())
	if err == nil {
		_, err = w.Write(out.Bytes())
	}
	if err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	return nil
}

// WriteProxies writes, as comments of YAML, by which proxy of the environment each upstream is reached, without its
// password; nothing if the environment has none. Data in a URL other than scheme and host is not shown.
func (c *Config) WriteProxies(w io.Writer, env *httpproxy.Config) error {
	if env.HTTPProxy == "" && env.HTTPSProxy == "" {
		return nil
	}
	var out bytes.Buffer
	out.WriteString("\n# Proxies of the environment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY):\n")
	for _, p := range c.Pools {
		u, err := url.Parse(p.Upstream)
		if err != nil {
			return fmt.Errorf("pool %s: upstream is not a URL", p.Name) // its text may hold a secret
		}
		by := "directly"
		if proxy, err := env.ProxyFunc()(u); err != nil {
			by = "not at all: the environment's proxy is not a URL"
		} else if proxy != nil {
			by = "by " + proxy.Redacted()
		}
		fmt.Fprintf(&out, "# pool %s reaches %s://%s %s\n", p.Name, u.Scheme, u.Host, by)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// encodeNode turns a setting into YAML.
func encodeNode(v reflect.Value) *yaml.Node {
	if d, ok := v.Interface().(Drill); ok {
		return d.Node
	}
	_, secret := v.Interface().(Secret)
	switch {
	case v.Kind() == reflect.Slice:
		return encodeList(v)
	case v.Kind() == reflect.Struct && !secret:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range strictyaml.SettingsOf(v.Type()) {
			key := &yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}
			n.Content = append(n.Content, key, encodeNode(v.Field(f.Index)))
		}
		return n
	case v.Kind() == reflect.String || secret:
		// The tag makes the encoder quote what would read back as something else.
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: formatScalar(v)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: formatScalar(v)}
}

func encodeList(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if v.Len() == 0 || v.Type().Elem().Kind() == reflect.String {
		n.Style = yaml.FlowStyle
	}
	for i := range v.Len() {
		n.Content = append(n.Content, encodeNode(v.Index(i)))
	}
	return n
}

// formatScalar writes a single value as a file would have it.
func formatScalar(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Secret:
		return value.String()
	case time.Duration:
		return format.Duration(value)
	case Bytes:
		return value.String()
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	case string:
		return strings.ReplaceAll(value, "$", "$$")
	}
	return fmt.Sprint(v.Interface())
}
