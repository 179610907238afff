package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"headgate/proxy/admission"
)

const (
	modelsLimit   = 4 << 20 // bytes of one upstream's list
	modelsTimeout = 30 * time.Second
)

// serveModels answers GET /v1/models without a permit, because clients use it to
// check whether the server is up. It is not a task.
func (p *Proxy) serveModels(tab *routingTable, w http.ResponseWriter, r *http.Request) {
	drainBody(http.NewResponseController(w), r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		methodNotAllowed(w, "GET, HEAD").write(w)
		return
	}
	if _, f := authenticate(tab.clients, r); f != nil {
		f.write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), modelsTimeout)
	defer cancel()
	if only := tab.singlePool(); only != nil {
		p.relayModels(ctx, tab, only, w, r)
		return
	}
	p.mergeModels(ctx, tab, w, r)
}

// relayModels relays the list of the only upstream unchanged.
func (p *Proxy) relayModels(
	ctx context.Context, tab *routingTable, pool *pool, w http.ResponseWriter, r *http.Request,
) {
	res, err := pool.fetchModels(ctx, tab, r)
	if err != nil {
		p.modelsFailed(w, err)
		return
	}
	defer res.Body.Close()
	copyResponseHeader(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		abortConn(w, r)
	}
}

func (p *pool) fetchModels(ctx context.Context, tab *routingTable, r *http.Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, joinUpstreamURL(p.Upstream, r.URL).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = p.upstreamHeader(tab, r.Header)
	res, err := p.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := checkAnswerStatus(res); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

func (p *Proxy) modelsFailed(w http.ResponseWriter, err error) {
	status, outcome, code := http.StatusBadGateway, admission.UpstreamError, "upstream_unreachable"
	if errors.Is(err, context.DeadlineExceeded) {
		status, outcome, code = http.StatusGatewayTimeout, admission.UpstreamTimeout, "upstream_timeout"
	}
	err = scrub(err)
	p.log.Warn("model list not read", "error", err)
	upstreamFailure(status, outcome, code, "The model endpoint's list of models could not be read.", err).write(w)
}

// mergeModels answers with the lists of all pools, each model once. Pools that do
// not answer are left out, as long as one does.
func (p *Proxy) mergeModels(ctx context.Context, tab *routingTable, w http.ResponseWriter, r *http.Request) {
	lists := make([][]gjson.Result, len(tab.pools))
	errs := make([]error, len(tab.pools))
	var group errgroup.Group
	for i, pool := range tab.pools {
		group.Go(func() error {
			lists[i], errs[i] = pool.modelList(ctx, tab, r)
			return nil
		})
	}
	_ = group.Wait() // errs has the errors, one for each pool
	data := []json.RawMessage{}
	answered := false
	seen := make(map[string]bool)
	for i, list := range lists {
		if errs[i] != nil {
			p.log.Warn("model list not read", "pool", tab.pools[i].Name, "error", scrub(errs[i]))
			continue
		}
		answered = true
		for _, m := range list {
			// A model that requests would send to another pool is that pool's to list.
			if id := m.Get("id").Str; id != "" && !seen[id] && tab.forModel(id, chatPath) == tab.pools[i] {
				seen[id] = true
				data = append(data, json.RawMessage(m.Raw))
			}
		}
	}
	if !answered {
		p.modelsFailed(w, errs[0])
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

func (p *pool) modelList(ctx context.Context, tab *routingTable, r *http.Request) ([]gjson.Result, error) {
	get := r.Clone(ctx)
	get.Method = http.MethodGet
	get.Header.Del("Accept-Encoding")
	res, err := p.fetchModels(ctx, tab, get)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, modelsLimit+1))
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", res.StatusCode)
	case len(body) > modelsLimit:
		return nil, fmt.Errorf("more than %d bytes", modelsLimit)
	case !validJSON(body):
		return nil, errors.New("not JSON")
	}
	return gjson.GetBytes(body, "data").Array(), nil
}
