package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
)

// newPool returns a pool beside the rig's own, with an upstream of its own.
func (r *testProxy) newPool(name string, upstream http.Handler, models ...string) Pool {
	r.Helper()
	s := serve(r, r.network, &http.Server{Handler: upstream, ErrorLog: discardLog()})
	r.Cleanup(s.close)
	gate := must(admission.New(admission.Config{
		Workers: 1, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2},
		QueueLimit: 100, AssumedService: time.Second,
	}))
	return Pool{
		Name: name, Models: models, Gate: gate, Upstream: must(url.Parse(s.url() + "/v1")), SLO: time.Minute,
		ConnectTimeout: time.Second, IdleTimeout: time.Minute, BodyLimit: 1 << 20, BufferLimit: 8 << 20,
	}
}

func newStub(models ...string) http.Handler {
	return must(modelstub.New(modelstub.Config{Models: models}))
}

// modelsHandler is an upstream that answers with one list of models, or what looks like it.
func modelsHandler(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

func (r *testProxy) models(header ...string) answer {
	r.Helper()
	req := must(http.NewRequest(http.MethodGet, r.server.url()+modelsPath, nil))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return r.do(req)
}

// modelIDs returns the IDs of a list of models.
func (r *testProxy) modelIDs(a answer) string {
	r.Helper()
	var l struct {
		Object string
		Data   []struct{ ID string }
	}
	if err := json.Unmarshal(a.body, &l); err != nil || l.Object != "list" || l.Data == nil {
		r.Fatalf("status %d, %s (%v)", a.status, a.body, err)
	}
	var ids []string
	for _, m := range l.Data {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

func TestModelsOfSeveralPools(t *testing.T) {
	for name, c := range map[string]struct {
		second http.Handler
		want   string
	}{
		"merged, each once, only what is routed there": {newStub("b", "a", "c", "z-1"), "a b z-1"},
		"an element that is not understood is kept":    {modelsHandler(200, `{"data":[{"id":"b","x":{"y":1.50}}]}`), "a b"},
		"an element without a name":                    {modelsHandler(200, `{"data":[{"id":7},{},null,"b",{"id":""}]}`), "a"},
		"no list":                                      {modelsHandler(200, `{}`), "a"},
		"not JSON":                                     {modelsHandler(200, `<html>`), "a"},
		"nested without end":                           {modelsHandler(200, strings.Repeat("[", 100_000)), "a"},
		"too long":                                     {modelsHandler(200, `{"data":[],"x":"`+strings.Repeat("x", modelsLimit)+`"}`), "a"},
		"an error":                                     {modelsHandler(500, `{"data":[{"id":"b"}]}`), "a"},
		"an answer that is none":                       {rawUpstream{"HTTP/1.1 042 Odd\r\n\r\n", nil}, "a"},
		"cut off":                                      {rawUpstream{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":[", nil}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, func(p *fixture) {
				p.pool.Models = []string{"a"}
				p.stub.Models = []string{"a", "b"} // b is another pool's
				p.more = func(r *testProxy) []Pool { return []Pool{r.newPool("second", c.second, "b", "z-*")} }
			})
			a := r.models("Accept-Encoding", "gzip")
			if got := r.modelIDs(a); a.status != 200 || got != c.want {
				t.Errorf("status %d, models %q, want %q", a.status, got, c.want)
			}
			if strings.Contains(name, "kept") && !strings.Contains(string(a.body), `{"id":"b","x":{"y":1.50}}`) {
				t.Errorf("%s", a.body)
			}
		})
	}
}

func TestModelsWhenNobodyAnswers(t *testing.T) {
	for _, pools := range []int{1, 2} {
		t.Run(fmt.Sprint(pools), func(t *testing.T) {
			r := newTestProxy(t, func(p *fixture) {
				p.pool.Models = []string{"a"}
				p.upstream = rawUpstream{"", nil}
				p.more = func(r *testProxy) []Pool {
					return []Pool{r.newPool("second", rawUpstream{"", nil}, "b")}[:pools-1]
				}
			})
			a := r.models()
			if a.status != http.StatusBadGateway {
				t.Errorf("status %d", a.status)
			}
			r.wantErrorBody(a.body, "upstream_unreachable")
			if len(r.recorder.all()) != 0 {
				t.Error("a list of models is no task")
			}
		})
	}
}

func TestModelsUpstreamTimeout(t *testing.T) {
	withSynctest(t, nil, func(r *testProxy) {
		began := time.Now()
		a := r.models("Stub-Fault", "hang")
		if a.status != http.StatusGatewayTimeout || time.Since(began) > modelsTimeout+time.Second {
			t.Errorf("status %d after %s", a.status, time.Since(began))
		}
		r.wantErrorBody(a.body, "upstream_timeout")
	})
}

func TestModelsThatAreCutOff(t *testing.T) {
	r := newTestProxy(t, withRawUpstream("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":[", nil))
	r.wantFailure(r.models(), http.StatusBadGateway, "upstream_unreachable")
}

func TestRouting(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		p.pool.Models = []string{"a", "big-*", "*[x]*"}
		p.more = func(r *testProxy) []Pool {
			second := r.newPool("second", newStub(), "b", "big-b", "b*")
			second.Endpoints = gatedPosts("/v1/rerank")
			return []Pool{second}
		}
	})
	for model, pool := range map[string]string{
		"a": "main", "b": "second", "big-a": "main", "big-b": "second", "bx": "second", "big-": "main", "bi": "second", "1[x]2": "main",
		"A": "", "ab": "", "": "", "x": "", "*": "", "1x2": "",
	} {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}]}`, model)
		before := len(r.recorder.all())
		a := r.post(chatPath, body)
		o := r.task(before + 1)
		switch {
		case pool != "":
			r.wantCompleted(a)
		case model == "":
			r.wantFailure(a, http.StatusBadRequest, "model_required")
		default:
			r.wantFailure(a, http.StatusNotFound, "model_not_found")
		}
		if want := strings.Replace("-"+pool, "-", "", 1); o.Pool != want && !(want == "" && o.Pool == Unrouted) {
			t.Errorf("model %q went to %s, want %s", model, o.Pool, want)
		}
	}
	// A pool that does not forward a path is not asked, whatever the model.
	r.wantFailure(r.post("/v1/rerank", `{"model":"a"}`), http.StatusNotFound, "model_not_found")
	if a := r.post("/v1/rerank", `{"model":"b"}`); a.status != http.StatusNotFound || a.header.Get("X-Request-Id") == "" || strings.Contains(string(a.body), "model_not_found") {
		t.Errorf("the upstream was not asked: %d %s", a.status, a.body)
	}
	// What is not JSON goes to the first pool that forwards its path.
	r.post("/v1/rerank", "x", "Content-Type", "application/octet-stream")
	if o := r.recorder.all()[len(r.recorder.all())-1]; o.Pool != "second" {
		t.Errorf("pool %s", o.Pool)
	}
}

// Each pool has its own budget, and a body its own pool's limit.
func TestLimitsOfSeveralPools(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		p.pool.Models = []string{"a"}
		p.more = func(r *testProxy) []Pool { return []Pool{r.newPool("second", newStub(), "b")} }
	})
	long := strings.Repeat(" ", 2<<20)
	r.wantCompleted(r.post(chatPath, `{"model":"a","messages":[{"role":"user","content":"x"}]}`+long))
	r.wantFailure(r.post(chatPath, `{"model":"b","messages":[{"role":"user","content":"x"}]}`+long), http.StatusRequestEntityTooLarge, "request_too_large")
	r.wantFailure(r.post(chatPath, `{"model":"a"}`+strings.Repeat(" ", 4<<20)), http.StatusRequestEntityTooLarge, "request_too_large")
	for _, o := range r.recorder.all() {
		if o.Pool == Unrouted && o.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%+v", o)
		}
	}
}

func TestConfigThatIsRefused(t *testing.T) {
	good := func() Config {
		r := &testProxy{TB: t, network: new(loopback)}
		p := r.newPool("p", newStub(), "a")
		return Config{Pools: []Pool{p}, Observer: newRecorder(t), Log: discardSlog()}
	}
	if _, err := New(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Config){
		"no pools":                            func(c *Config) { c.Pools = nil },
		"observer":                            func(c *Config) { c.Observer = nil },
		"log":                                 func(c *Config) { c.Log = nil },
		`"" is not a valid pool name`:         func(c *Config) { c.Pools[0].Name = "" },
		`"unrouted" is not a valid pool name`: func(c *Config) { c.Pools[0].Name = Unrouted },
		"absolute http or https URL":          func(c *Config) { c.Pools[0].Upstream = must(url.Parse("ftp://x/")) },
		"upstream must be":                    func(c *Config) { c.Pools[0].Upstream = nil },
		"upstream must be an":                 func(c *Config) { c.Pools[0].Upstream = must(url.Parse("/v1")) },
		"gate must be set":                    func(c *Config) { c.Pools[0].Gate = nil },
		"SLO":                                 func(c *Config) { c.Pools[0].SLO = 0 },
		"timeouts":                            func(c *Config) { c.Pools[0].IdleTimeout = -1 },
		"timeouts must":                       func(c *Config) { c.Pools[0].ConnectTimeout = 0 },
		"body limit":                          func(c *Config) { c.Pools[0].BodyLimit = 0 },
		"fit in the buffer limit":             func(c *Config) { c.Pools[0].BufferLimit = c.Pools[0].BodyLimit - 1 },
		`routed to two pools: "p"`:            func(c *Config) { p := c.Pools[0]; p.Name = "q"; c.Pools = append(c.Pools, p) },
	} {
		c := good()
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}
