package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"headgate/proxy/admission"
)

const (
	modelsLimit    = 4 << 20 // bytes of one upstream's list
	modelsTimeout  = 30 * time.Second
	modelsFresh    = 5 * time.Second // a list is not fetched again for so long
	modelsPatience = 2 * time.Second // how long one of several upstreams may keep the others' lists waiting
	maxModelLists  = 100             // of one upstream, by what is sent with the request for one
)

// serveModels answers GET /v1/models without a permit, because clients use it to
// check whether the server is up. It is not a task.
func (p *Proxy) serveModels(tab *routingTable, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p.reject(w, r, methodNotAllowed(w, tab.allowedMethods(modelsPath)))
		return
	}
	if _, f := authenticate(tab.clients, r); f != nil {
		p.reject(w, r, f)
		return
	}
	drainBody(http.NewResponseController(w), r)
	if only := tab.singlePool(); only != nil {
		p.relayModels(tab, only, w, r)
		return
	}
	p.mergeModels(tab, w, r)
}

// modelLists are the lists that an upstream has given, by the headers and the query of
// the requests for them. It is safe for concurrent use.
type modelLists struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*modelList
}

// modelList is one of them: the latest attempt to get it, and the last one that
// succeeded.
type modelList struct {
	latest *modelsFetch
	good   *modelsFetch // nil before the first
}

// modelsFetch is a request for a list of models, shared by the clients that wait for it.
type modelsFetch struct {
	began time.Time
	done  chan struct{}
	// Valid once done is closed.
	end    time.Time
	status int
	header http.Header
	body   []byte
	err    error
}

// ok reports whether a fetch that has ended got a list.
func (f *modelsFetch) ok() bool { return f.err == nil && f.status == http.StatusOK }

func (f *modelsFetch) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// perRequest are headers that differ between requests for the same list. They are not
// sent with a request for one. A header that is not listed might decide what is in it.
var perRequest = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Baggage", "Cache-Control", "Content-Type", "Date", "Dnt",
	"Forwarded", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Origin",
	"Pragma", "Priority", "Range", "Referer", "Traceparent", "Tracestate", "User-Agent", "X-Real-Ip", requestIDHeader,
}

var perRequestPrefixes = []string{"X-Stainless-", "X-Forwarded-", "Sec-"}

// listHeader returns the headers for a request for models.
func (p *pool) listHeader(tab *routingTable, in http.Header) http.Header {
	h := p.upstreamHeader(tab, in)
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return slices.Contains(perRequest, name) ||
			slices.ContainsFunc(perRequestPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "headgate")
	return h
}

// list returns the latest request for the models that r asks for, and the last list
// before it. A new one is made if the latest is not fresh any more.
func (p *Proxy) list(tab *routingTable, pool *pool, r *http.Request) (latest, good *modelsFetch) {
	header := pool.listHeader(tab, r.Header)
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(sum, "%q%q", name, header[name])
	}
	fmt.Fprintf(sum, "%q", r.URL.RawQuery)
	key := [sha256.Size]byte(sum.Sum(nil))

	l := pool.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.all[key]
	if entry == nil {
		entry = l.addLocked(key)
	}
	if f := entry.latest; f != nil {
		if f.ended() && f.ok() {
			entry.good = f
		}
		if !f.ended() || f.ok() && time.Since(f.end) < modelsFresh {
			return f, entry.good
		}
	}
	f := &modelsFetch{began: time.Now(), done: make(chan struct{})}
	entry.latest = f
	req := &http.Request{Method: http.MethodGet, URL: joinUpstreamURL(pool.Upstream, r.URL), Header: header}
	p.fetches.Go(func() { f.run(p.background, pool.transport, req) })
	return f, entry.good
}

// addLocked adds a list, and forgets the oldest one if there are too many.
func (l *modelLists) addLocked(key [sha256.Size]byte) *modelList {
	if l.all == nil {
		l.all = make(map[[sha256.Size]byte]*modelList)
	}
	if len(l.all) >= maxModelLists {
		var oldest [sha256.Size]byte
		for k, e := range l.all {
			if o := l.all[oldest]; o == nil || e.latest.began.Before(o.latest.began) {
				oldest = k
			}
		}
		delete(l.all, oldest)
	}
	l.all[key] = new(modelList)
	return l.all[key]
}

// run makes the request. It does not end when one of the clients leaves.
func (f *modelsFetch) run(ctx context.Context, transport http.RoundTripper, req *http.Request) {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	defer close(f.done)
	defer func() { f.end = time.Now() }()
	res, err := transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		f.err = err
		return
	}
	defer res.Body.Close()
	if f.err = checkAnswerStatus(res); f.err != nil {
		return
	}
	f.status, f.header = res.StatusCode, res.Header
	if f.body, f.err = io.ReadAll(io.LimitReader(res.Body, modelsLimit+1)); f.err == nil && len(f.body) > modelsLimit {
		f.err = fmt.Errorf("more than %d bytes", modelsLimit)
	}
}

// wait waits until the fetch has ended, the client has left, or the time has passed.
func (f *modelsFetch) wait(ctx context.Context, limit time.Duration) error {
	if f.ended() {
		return f.err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.err
	case <-timer.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// relayModels relays the list of the only upstream.
func (p *Proxy) relayModels(tab *routingTable, pool *pool, w http.ResponseWriter, r *http.Request) {
	f, _ := p.list(tab, pool, r)
	if err := f.wait(r.Context(), modelsTimeout); err != nil {
		p.modelsFailed(w, r, err)
		return
	}
	h := w.Header()
	copyResponseHeader(h, f.header)
	h.Del("Set-Cookie") // one client's would be everyone's
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body) // the client may have left
}

func (p *Proxy) modelsFailed(w http.ResponseWriter, r *http.Request, err error) {
	status, outcome, code := http.StatusBadGateway, admission.UpstreamError, "upstream_unreachable"
	if errors.Is(err, context.DeadlineExceeded) {
		status, outcome, code = http.StatusGatewayTimeout, admission.UpstreamTimeout, "upstream_timeout"
	}
	err = scrub(err)
	p.log.Warn("model list not read", "error", err)
	upstreamFailure(status, outcome, code, "The model endpoint's list of models could not be read.", err).write(w, r)
}

// mergeModels answers with the lists of all pools, each model once. A pool that does
// not answer soon is represented by its last list, or left out, as long as one answers.
func (p *Proxy) mergeModels(tab *routingTable, w http.ResponseWriter, r *http.Request) {
	type attempt struct{ latest, good *modelsFetch }
	attempts := make([]attempt, len(tab.pools))
	for i, pool := range tab.pools {
		attempts[i].latest, attempts[i].good = p.list(tab, pool, r)
	}
	data := []json.RawMessage{}
	answered := false
	seen := make(map[string]bool)
	var firstErr error
	for i, a := range attempts {
		pool := tab.pools[i]
		list, err := a.latest.models(r.Context(), time.Until(a.latest.began.Add(modelsPatience)))
		if err != nil {
			p.log.Warn("model list not read", "pool", pool.Name, "error", scrub(err))
			if firstErr == nil {
				firstErr = err
			}
			if a.good == nil {
				continue
			}
			if list, err = a.good.models(r.Context(), 0); err != nil {
				continue
			}
		}
		answered = true
		for _, m := range list {
			// A model that requests would send to another pool is that pool's to list.
			if id := m.Get("id").Str; id != "" && !seen[id] && tab.forModel(id, http.MethodPost, chatPath) == pool {
				seen[id] = true
				data = append(data, json.RawMessage(m.Raw))
			}
		}
	}
	if !answered {
		p.modelsFailed(w, r, firstErr)
		return
	}
	body, err := json.Marshal(map[string]any{"object": "list", "data": data})
	if err != nil { // every element has been validated
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// models waits for the fetch and returns its list.
func (f *modelsFetch) models(ctx context.Context, limit time.Duration) ([]gjson.Result, error) {
	switch err := f.wait(ctx, limit); {
	case err != nil:
		return nil, err
	case f.status != http.StatusOK:
		return nil, fmt.Errorf("status %d", f.status)
	case !validJSON(f.body):
		return nil, errors.New("not JSON")
	}
	return gjson.GetBytes(f.body, "data").Array(), nil
}
