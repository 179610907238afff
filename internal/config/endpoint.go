package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
)

// DecodeNode reads an endpoint that is a pattern alone, or a mapping.
func (e *Endpoint) DecodeNode(d *strictyaml.Decoder, n *yaml.Node, at string) {
	*e = Endpoint{}
	gateSet := false
	if n.Kind == yaml.ScalarNode {
		d.Scalar(n, &e.Match, at)
	} else {
		d.Mapping(n, at,
			strictyaml.Key("match", func(n *yaml.Node, at string) { d.Scalar(n, &e.Match, at) }),
			strictyaml.Key("gate", func(n *yaml.Node, at string) {
				gateSet = true
				d.Scalar(n, &e.Gate, at)
			}),
			strictyaml.Key("retry", func(n *yaml.Node, at string) { d.Scalar(n, &e.Retry, at) }))
	}
	if !gateSet {
		e.Gate = e.Method() == "POST"
	}
}

// Method returns the method of the pattern, * for any.
func (e Endpoint) Method() string {
	if method, _, ok := strings.Cut(e.Match, " "); ok {
		return method
	}
	return "POST"
}

// Path returns the path of the pattern.
func (e Endpoint) Path() string {
	if _, path, ok := strings.Cut(e.Match, " "); ok {
		return path
	}
	return e.Match
}

var endpointMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "*"}

func (l checker) checkEndpoints(at string, endpoints []Endpoint) {
	seen := firstPaths{}
	for i, e := range endpoints {
		item := fmt.Sprintf("%s[%d]", at, i)
		if !validEndpoint(e) {
			l.Refuse(item, "must be a path such as /v1/rerank out of letters, digits and ._~-/*, without dot segments, "+
				"double or final slashes, after a method (GET, HEAD, POST, PUT, PATCH, DELETE or * for any) and a space, "+
				"or without one for POST", strictyaml.Quote(e.Match))
			continue
		}
		l.checkUnique(seen, item, e.Method()+" "+e.Path(), "an endpoint")
	}
}

func validEndpoint(e Endpoint) bool {
	const most = 256
	p := e.Path()
	return slices.Contains(endpointMethods, e.Method()) && len(p) > 1 && len(p) <= most && p[0] == '/' &&
		path.Clean(p) == p && strings.Trim(p, hostChars+"~/*") == "" && strings.Trim(p, "/*") != ""
}
