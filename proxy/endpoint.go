package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Endpoint is a pattern of requests that a pool forwards.
type Endpoint struct {
	Method string // of HTTP, * for any; GET includes HEAD
	// Path as clients write it. A `*` stands for one or more characters, slashes and
	// percent-encodings included; a final `/*` also for nothing.
	Path string
	Gate bool // requests wait for a permit; otherwise they are forwarded at once and are not tasks
	// Retry lets a request with a permit be sent twice, as [generating] ones are.
	Retry bool
}

// modelPlace says where a request names the model that decides its pool.
type modelPlace uint8

const (
	modelOptional modelPlace = iota // in a body of JSON or of form fields, or nowhere
	modelRequired                   // in a JSON body
	modelInPath                     // after /v1/models/
	modelNowhere
)

// endpoint is an Endpoint in use.
type endpoint struct {
	Endpoint
	model   modelPlace
	builtIn bool
	glob    *regexp.Regexp // of a path with a `*`
}

const (
	modelsPath    = "/v1/models"
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	healthPath    = "/healthz"
)

// builtIn are the endpoints that every pool forwards, after its own.
var builtIn = []*endpoint{
	newBuiltIn("POST", chatPath, true, modelRequired),
	newBuiltIn("POST", "/v1/completions", true, modelRequired),
	newBuiltIn("POST", responsesPath, true, modelRequired),
	newBuiltIn("POST", "/v1/embeddings", true, modelRequired),
	newBuiltIn("POST", messagesPath, true, modelRequired),
	newBuiltIn("POST", messagesPath+"/count_tokens", false, modelRequired),
	newBuiltIn("GET", modelsPath+"/*", false, modelInPath),
	newBuiltIn("GET", "/v1/responses/*", false, modelNowhere),
	newBuiltIn("DELETE", "/v1/responses/*", false, modelNowhere),
	newBuiltIn("POST", "/v1/responses/*/cancel", false, modelNowhere),
	newBuiltIn("*", "/v1/files/*", false, modelNowhere),
	newBuiltIn("*", "/v1/batches/*", false, modelNowhere),
}

func newBuiltIn(method, path string, gate bool, model modelPlace) *endpoint {
	return &endpoint{Endpoint: Endpoint{Method: method, Path: path, Gate: gate}, model: model, builtIn: true, glob: globPath(path)}
}

// exactPaths are the built-in paths without a `*`. Only an endpoint that names one
// exactly may override it: "* /v1/*" must not take the permits away from chat.
var exactPaths = func() map[string]bool {
	paths := map[string]bool{modelsPath: true}
	for _, e := range builtIn {
		if e.glob == nil {
			paths[e.Path] = true
		}
	}
	return paths
}()

func newEndpoint(e Endpoint) *endpoint {
	n := &endpoint{Endpoint: e, glob: globPath(e.Path)}
	for _, known := range builtIn {
		if known.Path == e.Path {
			n.model = known.model
		}
	}
	return n
}

// globPath compiles a path with a `*`; nil without one.
func globPath(path string) *regexp.Regexp {
	if !strings.Contains(path, "*") {
		return nil
	}
	stem, subtree := strings.CutSuffix(path, "/*")
	pattern := strings.ReplaceAll(regexp.QuoteMeta(stem), `\*`, `.+`)
	if subtree {
		pattern += `(?:/.+)?`
	}
	return regexp.MustCompile(`^(?s:` + pattern + `)$`)
}

func (e *endpoint) String() string { return e.Method + " " + e.Path }

func (e *endpoint) takesPath(path string) bool {
	if e.glob == nil {
		return path == e.Path
	}
	return !exactPaths[path] && e.glob.MatchString(path)
}

func (e *endpoint) takesMethod(method string) bool {
	switch e.Method {
	case "*":
		return slices.Contains(anyMethod, method)
	case http.MethodGet:
		return method == http.MethodGet || method == http.MethodHead
	}
	return method == e.Method
}

var anyMethod = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// endpoint returns the first endpoint of the pool that a request belongs to, nil
// without one.
func (p *pool) endpoint(method, path string) *endpoint {
	for _, e := range p.endpoints {
		if e.takesMethod(method) && e.takesPath(path) {
			return e
		}
	}
	return nil
}

// endpoint returns the endpoint that a request belongs to before its pool is known,
// nil without one: one that is gated, if any pool has it so.
func (t *routingTable) endpoint(method, path string) *endpoint {
	var found *endpoint
	for _, p := range t.pools {
		e := p.endpoint(method, path)
		if e != nil && (found == nil || e.Gate && !found.Gate) {
			found = e
		}
	}
	return found
}

// allowedMethods returns the methods with which a path is forwarded, as for Allow.
func (t *routingTable) allowedMethods(path string) string {
	var methods []string
	add := func(method string) {
		if !slices.Contains(methods, method) {
			methods = append(methods, method)
		}
	}
	if path == modelsPath {
		methods = append(methods, http.MethodGet, http.MethodHead)
	}
	for _, p := range t.pools {
		for _, e := range p.endpoints {
			switch {
			case !e.takesPath(path):
			case e.Method == "*":
				return strings.Join(anyMethod, ", ")
			case e.Method == http.MethodGet:
				add(http.MethodGet)
				add(http.MethodHead)
			default:
				add(e.Method)
			}
		}
	}
	return strings.Join(methods, ", ")
}

// served lists what the pools forward, for people.
func (t *routingTable) served() string {
	list := []string{}
	for _, p := range t.pools {
		for _, e := range p.endpoints {
			if text := e.String(); !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return strings.Join(append(list, "GET "+modelsPath), ", ")
}

// notFound names the path and lists what is served.
func (t *routingTable) notFound(r *http.Request) *failure {
	return invalidRequest(http.StatusNotFound, "unknown_url",
		"Unknown path for %s: %s. Served: %s. The base URL of an OpenAI client ends in /v1.",
		r.Method, quoteBounded(r.URL.Path), t.servedList)
}

// quoteBounded quotes text of a client for a message, without what is beyond 200 bytes.
func quoteBounded(text string) string {
	const most = 200
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}

// requestPath returns a request's path as endpoints are compared with it: escaped as
// the client wrote it, without repeated and final slashes. It reports false for a path
// that an upstream might read as another one: dot segments, encoded slashes,
// backslashes, percent signs and control characters.
func requestPath(u *url.URL) (string, bool) {
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") || strings.Count(path, "/") != strings.Count(u.Path, "/") {
		return "", false
	}
	if strings.ContainsFunc(u.Path, func(r rune) bool { return r == '\\' || r == '%' || r < ' ' || r == 0x7f }) {
		return "", false
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return "", false
		}
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path, true
}

// withPath returns the request with an escaped path, itself if it has that already.
func withPath(r *http.Request, path string) *http.Request {
	if r.URL.EscapedPath() == path {
		return r
	}
	u, c := *r.URL, *r
	u.Path, u.RawPath = unescape(path), path
	c.URL = &u
	return &c
}

// unescape decodes a path that a URL had.
func unescape(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

// joinUpstreamURL returns the URL for a request at the upstream: its path below /v1
// is appended to the base, any other one to the base without its final /v1.
func joinUpstreamURL(base, in *url.URL) *url.URL {
	u := *base
	prefix, path := strings.TrimSuffix(base.EscapedPath(), "/"), in.EscapedPath()
	if below, ok := strings.CutPrefix(path, "/v1/"); ok {
		path = "/" + below
	} else {
		prefix = strings.TrimSuffix(prefix, "/v1")
	}
	u.RawPath = prefix + path
	u.Path = unescape(u.RawPath)
	u.RawQuery = in.RawQuery
	return &u
}
