package proxy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"headgate/proxy/admission"
)

// Unrouted is the pool label of tasks that failed before they were routed. No pool
// may have this name.
const Unrouted = "unrouted"

// Config configures a Proxy.
type Config struct {
	Pools    []Pool
	Clients  []Client // empty: no keys are required, and the client's Authorization is forwarded
	Observer Observer // receives the events of every task
	Log      *slog.Logger
	Timeouts Timeouts
}

// Pool is one model endpoint with its gate.
type Pool struct {
	Name        string
	Upstream    *url.URL // base, such as http://host/v1; a request's path below /v1 is appended
	UpstreamKey string   // sent as KeyHeader says; empty: see Config.Clients
	KeyHeader   string   // that UpstreamKey is sent in: Authorization (as bearer token; also if empty), api-key, x-api-key
	Models      []string // names that are routed here; `*` in a name matches any run of characters
	Endpoints   []string // further POST paths to forward
	Gate        *admission.Gate
	SLO         time.Duration // on turnaround; the default deadline

	Connections     Connections
	ConnectTimeout  time.Duration // to reach the upstream, TLS included
	IdleTimeout     time.Duration // of an upstream without a byte, before the first one and between them
	BodyLimit       int64         // bytes of one request body, decoded or not
	BufferLimit     int64         // bytes of all request bodies held at one time
	StreamKeepAlive time.Duration // between comments to a stream that waits for its permit; 0: none

	Transport http.RoundTripper // nil: one made from the timeouts above
	// WrapTransport wraps each transport that is made. May be nil.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Client may send tasks.
type Client struct {
	Name      string
	KeySHA256 [sha256.Size]byte
	Class     admission.Class // the best class that this client's tasks may request
}

// Timeouts bound how long a slow client can hold resources. Zero fields get the
// defaults.
type Timeouts struct {
	BodyRead    time.Duration // without a byte of the request body; default 30 s
	ClientWrite time.Duration // for one write to the client; default 60 s
}

func (t Timeouts) withDefaults() Timeouts {
	if t.BodyRead == 0 {
		t.BodyRead = 30 * time.Second
	}
	if t.ClientWrite == 0 {
		t.ClientWrite = 60 * time.Second
	}
	return t
}

func (c Config) validate() error {
	if len(c.Pools) == 0 {
		return errors.New("no pools")
	}
	if c.Observer == nil || c.Log == nil {
		return errors.New("observer and log must be set")
	}
	for _, p := range c.Pools {
		if err := p.validate(); err != nil {
			return fmt.Errorf("pool %q: %w", p.Name, err)
		}
	}
	return nil
}

func (p Pool) validate() error {
	switch {
	case p.Name == "" || p.Name == Unrouted:
		return fmt.Errorf("%q is not a valid pool name", p.Name)
	case p.Upstream == nil || p.Upstream.Host == "" || !strings.HasPrefix(p.Upstream.Scheme, "http"):
		return errors.New("upstream must be an absolute http or https URL")
	case p.Gate == nil:
		return errors.New("gate must be set")
	case p.SLO <= 0 || p.ConnectTimeout <= 0 || p.IdleTimeout <= 0:
		return errors.New("SLO and timeouts must be above 0")
	case p.Connections.Idle < 0 || p.Connections.MaxAge < 0:
		return errors.New("idle time and maximum age of connections must not be negative")
	case p.BodyLimit <= 0 || p.BufferLimit < p.BodyLimit:
		return errors.New("body limit must be above 0 and fit in the buffer limit")
	}
	_, err := p.Connections.TLS.Config()
	return err
}

const (
	modelsPath    = "/v1/models"
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
)

// endpoints are the POST paths that every pool forwards.
var endpoints = map[string]protocol{
	chatPath:          protocolChoices,
	"/v1/completions": protocolChoices,
	responsesPath:     protocolTyped,
	"/v1/embeddings":  protocolJSON,
}

// protocols are those of paths that a pool may forward besides, with or without /v1.
var protocols = map[string]protocol{
	"/messages":     protocolTyped,
	"/api/chat":     protocolOllama,
	"/api/generate": protocolOllama,
}

// pool is a Pool in use.
type pool struct {
	Pool
	bodyBudget *budget
	transport  http.RoundTripper
	conns      *upstreamConns   // behind transport; nil: transport came with the Pool
	patterns   []*regexp.Regexp // of Models with a `*`
	extra      map[string]bool  // Endpoints
}

// routingTable holds everything that requests are routed by. It is immutable; a
// reload makes a new one.
type routingTable struct {
	pools      []*pool
	byModel    map[string]*pool // names without a `*`
	extra      map[string]bool  // Endpoints of all pools
	clients    []Client
	bodyBudget *budget // of all pools together
	maxBody    int64   // the largest body limit of any pool
}

// newRoutingTable makes a table that takes over the budgets and connections of the
// old one, if there is one.
func newRoutingTable(c Config, old *routingTable) (*routingTable, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	t := &routingTable{clients: c.Clients, byModel: make(map[string]*pool), extra: make(map[string]bool)}
	for i := range c.Pools {
		p := newPool(c.Pools[i], old.pool(c.Pools[i].Name), retryReporter(c.Pools[i].Name, c))
		for _, name := range p.Models {
			if strings.Contains(name, "*") {
				continue
			}
			if other := t.byModel[name]; other != nil {
				return nil, fmt.Errorf("model %q is routed to two pools: %q and %q", name, other.Name, p.Name)
			}
			t.byModel[name] = p
		}
		for path := range p.extra {
			t.extra[path] = true
		}
		t.maxBody = max(t.maxBody, p.BodyLimit)
		t.pools = append(t.pools, p)
	}
	if old != nil {
		t.bodyBudget = old.bodyBudget
	} else {
		t.bodyBudget = new(budget)
	}
	return t, nil
}

// setLimits sets the limits of the budgets. Pools share a budget with those that they replace.
func (t *routingTable) setLimits() {
	var sum int64
	for _, p := range t.pools {
		p.bodyBudget.limit.Store(p.BufferLimit)
		sum += p.BufferLimit
	}
	t.bodyBudget.limit.Store(sum)
}

// pool returns the pool of that name, nil if it does not exist.
func (t *routingTable) pool(name string) *pool {
	if t == nil {
		return nil
	}
	for _, p := range t.pools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// sameTransport reports whether another pool would make upstream connections in
// the same way.
func (p *pool) sameTransport(c Pool) bool {
	return p.Transport == nil && p.ConnectTimeout == c.ConnectTimeout && *p.Upstream == *c.Upstream &&
		p.Connections == c.Connections && (p.WrapTransport == nil) == (c.WrapTransport == nil)
}

// newPool makes a pool from its configuration. It takes over the old one's budget,
// and its upstream connections if they would be made in the same way. onRetry is called
// for each request that is sent to the upstream again.
func newPool(c Pool, old *pool, onRetry func(*http.Request, error)) *pool {
	p := &pool{Pool: c, transport: c.Transport, extra: make(map[string]bool)}
	if old != nil {
		p.bodyBudget = old.bodyBudget
		if p.transport == nil && old.sameTransport(c) {
			p.transport, p.conns = old.transport, old.conns
		}
	} else {
		p.bodyBudget = new(budget)
	}
	if p.transport == nil {
		p.conns = newUpstreamConns(func() *http.Transport { return newTransport(c) })
		p.conns.onRetry = onRetry
		p.transport = p.conns
		if c.WrapTransport != nil {
			p.transport = c.WrapTransport(p.transport)
		}
	}
	for _, path := range c.Endpoints {
		p.extra[path] = true
	}
	for _, name := range c.Models {
		if strings.Contains(name, "*") {
			quoted := strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, `.*`)
			p.patterns = append(p.patterns, regexp.MustCompile(`^(?s:`+quoted+`)$`))
		}
	}
	return p
}

// forModel returns the pool for a model: an exact name first, then the first pool
// with a matching pattern. Only pools that forward path count.
func (t *routingTable) forModel(model, path string) *pool {
	if p := t.byModel[model]; p != nil && p.forwards(path) {
		return p
	}
	for _, p := range t.pools {
		for _, re := range p.patterns {
			if re.MatchString(model) && p.forwards(path) {
				return p
			}
		}
	}
	return nil
}

// forPath returns the first pool that forwards a path of its own.
func (t *routingTable) forPath(path string) *pool {
	for _, p := range t.pools {
		if p.extra[path] {
			return p
		}
	}
	return nil
}

func (p *pool) forwards(path string) bool {
	_, listed := endpoints[path]
	return listed || p.extra[path]
}

// singlePool returns the only pool, nil if there are several.
func (t *routingTable) singlePool() *pool {
	if len(t.pools) == 1 {
		return t.pools[0]
	}
	return nil
}

// endpoint returns the protocol of a path, false if it is not forwarded. Paths are
// compared as the client wrote them: those with dot segments or encoded slashes are
// unknown.
func (t *routingTable) endpoint(r *http.Request) (protocol, bool) {
	path := r.URL.Path
	if r.URL.EscapedPath() != path {
		return protocolOther, false
	}
	if proto, ok := endpoints[path]; ok {
		return proto, true
	}
	return protocols[strings.TrimPrefix(path, "/v1")], t.extra[path]
}

// modelNotFound is the answer to a model that no pool serves.
func modelNotFound(model string) *failure {
	const most = 200
	if len(model) > most {
		model = strings.ToValidUTF8(model[:most], "") + "..."
	}
	return invalidRequest(http.StatusNotFound, "model_not_found", "The model %q does not exist.", model)
}

// notFound lists the supported paths, without the further ones of single pools.
func notFound(r *http.Request) *failure {
	listed := strings.Join(slices.Sorted(maps.Keys(endpoints)), ", ")
	return invalidRequest(http.StatusNotFound, "unknown_url", "Unknown path for %s; supported: "+
		"POST %s, and GET %s. The base URL of a client ends in /v1.", r.Method, listed, modelsPath)
}

func methodNotAllowed(w http.ResponseWriter, allow string) *failure {
	w.Header().Set("Allow", allow)
	return invalidRequest(http.StatusMethodNotAllowed, "method_not_allowed", "Method not allowed; allowed: %s.", allow)
}

// classFor returns the class of a task: the requested one, but no better than its
// client may have.
func classFor(requested string, c Client) (admission.Class, *failure) {
	switch requested {
	case "":
		return c.Class, nil
	case admission.Interactive.String():
		return max(admission.Interactive, c.Class), nil
	case admission.Batch.String():
		return admission.Batch, nil
	default:
		return 0, invalidRequest(http.StatusBadRequest, "invalid_priority", "Headgate-Priority must be interactive or batch.")
	}
}
