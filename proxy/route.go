package proxy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
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
	Upstream    *url.URL   // base, such as http://host/v1; a request's path below /v1 is appended
	UpstreamKey string     // sent as KeyHeader says; empty: see Config.Clients
	KeyHeader   string     // that UpstreamKey is sent in: Authorization (as bearer token; also if empty), api-key, x-api-key
	Models      []string   // names that are routed here; `*` in a name matches any run of characters
	Endpoints   []Endpoint // further requests to forward, in order: the first match counts
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

// protocols are those of known paths, without /v1.
var protocols = map[string]protocol{
	"/chat/completions":      protocolChoices,
	"/completions":           protocolChoices,
	"/responses":             protocolTyped,
	"/embeddings":            protocolJSON,
	"/messages":              protocolTyped,
	"/messages/count_tokens": protocolJSON,
	"/api/chat":              protocolOllama,
	"/api/generate":          protocolOllama,
}

// protocolOf returns the protocol of a path, with or without /v1.
func protocolOf(path string) protocol {
	path = strings.TrimPrefix(path, "/v1")
	if strings.HasPrefix(path, "/responses/") {
		return protocolTyped
	}
	return protocols[path]
}

// pool is a Pool in use.
type pool struct {
	Pool
	bodyBudget *budget
	transport  http.RoundTripper
	conns      *upstreamConns   // behind transport; nil: transport came with the Pool
	patterns   []*regexp.Regexp // of Models with a `*`
	endpoints  []*endpoint      // Endpoints, then the built-in ones
	lists      *modelLists      // of its models
}

// routingTable holds everything that requests are routed by. It is immutable; a
// reload makes a new one.
type routingTable struct {
	pools      []*pool
	byModel    map[string]*pool // names without a `*`
	servedList string           // endpoints of all pools, for people
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
	t := &routingTable{clients: c.Clients, byModel: make(map[string]*pool)}
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
		t.maxBody = max(t.maxBody, p.BodyLimit)
		t.pools = append(t.pools, p)
	}
	t.servedList = t.served()
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
	p := &pool{Pool: c, transport: c.Transport, lists: new(modelLists)}
	if old != nil {
		p.bodyBudget = old.bodyBudget
		if p.transport == nil && old.sameTransport(c) {
			p.transport, p.conns, p.lists = old.transport, old.conns, old.lists
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
	for _, e := range c.Endpoints {
		p.endpoints = append(p.endpoints, newEndpoint(e))
	}
	p.endpoints = append(p.endpoints, builtIn...)
	for _, name := range c.Models {
		if strings.Contains(name, "*") {
			quoted := strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, `.*`)
			p.patterns = append(p.patterns, regexp.MustCompile(`^(?s:`+quoted+`)$`))
		}
	}
	return p
}

// forModel returns the pool for a model: an exact name first, then the first pool
// with a matching pattern. Only pools that forward the request count.
func (t *routingTable) forModel(model, method, path string) *pool {
	if p := t.byModel[model]; p != nil && p.endpoint(method, path) != nil {
		return p
	}
	for _, p := range t.pools {
		for _, re := range p.patterns {
			if re.MatchString(model) && p.endpoint(method, path) != nil {
				return p
			}
		}
	}
	return nil
}

// withoutModel returns the pool for a request that names no model, nil if none can be
// distinguished from the others: of the pools that list the request, or else of all, the only
// one, or the only one that serves every model. The first that lists the request is
// the last resort.
func (t *routingTable) withoutModel(method, path string) *pool {
	var listed, all []*pool
	for _, p := range t.pools {
		if e := p.endpoint(method, path); e != nil {
			all = append(all, p)
			if !e.builtIn {
				listed = append(listed, p)
			}
		}
	}
	candidates := all
	if len(listed) > 0 {
		candidates = listed
	}
	if len(candidates) == 1 {
		return candidates[0]
	}
	var open []*pool
	for _, p := range candidates {
		if p.servesAll() {
			open = append(open, p)
		}
	}
	switch {
	case len(open) == 1:
		return open[0]
	case len(listed) > 0:
		return listed[0]
	}
	return nil
}

func (p *pool) servesAll() bool { return slices.Contains(p.Models, "*") }

// singlePool returns the only pool, nil if there are several.
func (t *routingTable) singlePool() *pool {
	if len(t.pools) == 1 {
		return t.pools[0]
	}
	return nil
}

// modelNotFound is the answer to a model that no pool serves.
func modelNotFound(model string) *failure {
	return invalidRequest(http.StatusNotFound, "model_not_found", "The model %s does not exist.", quoteBounded(model))
}

func modelMissing() *failure {
	return invalidRequest(http.StatusBadRequest, "model_required",
		"You must provide a model parameter: a non-empty string.")
}

// poolUnknown is the answer to a request without a model that several pools could take.
func poolUnknown(r *http.Request) *failure {
	return invalidRequest(http.StatusNotFound, "unknown_url", "%s %s names no model, and several pools could serve it: "+
		"list it under the endpoints of one pool.", r.Method, quoteBounded(r.URL.Path))
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
