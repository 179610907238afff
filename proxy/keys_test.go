package proxy

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
)

// withClient lets nobody in but the owner of a key.
func withClient(key string) func(*fixture) {
	return func(p *fixture) {
		p.config.Clients = []Client{
			{Name: "other", KeySHA256: sha256.Sum256([]byte("another key"))},
			{Name: "team", KeySHA256: sha256.Sum256([]byte(key))},
		}
	}
}

// captureHeaders records the headers of what reaches the stub.
func captureHeaders(p *fixture) <-chan http.Header {
	seen := make(chan http.Header, 100)
	p.stub = modelstub.Config{Tap: func(r *http.Request, _ []byte) { seen <- r.Header.Clone() }}
	return seen
}

func TestRejectedKeys(t *testing.T) {
	r := newTestProxy(t, withClient("right"))
	for name, header := range map[string][]string{
		"none":            nil,
		"unknown":         {"Authorization", "Bearer wrong"},
		"empty":           {"Authorization", "Bearer "},
		"no scheme":       {"Authorization", "right"},
		"another scheme":  {"Authorization", "Basic right"},
		"part of it":      {"Authorization", "Bearer righ"},
		"more than it":    {"Authorization", "Bearer rightt"},
		"its hash":        {"Authorization", "Bearer 6dbeb0f3c0fd1a3b2b5e2fd1b6a5d4b6"},
		"huge":            {"Authorization", "Bearer " + strings.Repeat("x", 50<<10)},
		"in another case": {"Authorization", "Bearer RIGHT"},
		"as an api-key":   {"Api-Key", "right"},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.chat(header...)
			r.Helper()
			if e := r.wantErrorBody(a.body, "invalid_api_key"); a.status != http.StatusUnauthorized || e.Type != "invalid_request_error" {
				t.Errorf("status %d, error %+v", a.status, e)
			}
		})
	}
	if n := r.stub.Stats().Calls; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
	if n := r.recorder.outcomes(); n[admission.Invalid] != 11 {
		t.Errorf("outcomes %v", n)
	}
}

func TestModelsRequireKey(t *testing.T) {
	r := newTestProxy(t, withClient("right"))
	for key, status := range map[string]int{"wrong": http.StatusUnauthorized, "right": http.StatusOK} {
		req := must(http.NewRequest(http.MethodGet, r.server.url()+modelsPath, nil))
		req.Header.Set("Authorization", "Bearer "+key)
		if a := r.do(req); a.status != status {
			t.Errorf("key %s: status %d, want %d", key, a.status, status)
		}
	}
}

// Which Authorization the upstream sees.
func TestKeyThatGoesUpstream(t *testing.T) {
	for name, c := range map[string]struct {
		clients bool
		key     string // of the upstream
		sent    string
		want    string
	}{
		"the client's own":                 {false, "", "Bearer mine", "Bearer mine"},
		"none":                             {false, "", "", ""},
		"the pool's before the client's":   {false, "pool", "Bearer mine", "Bearer pool"},
		"the pool's alone":                 {false, "pool", "", "Bearer pool"},
		"a key of ours stays here":         {true, "", "Bearer ours", ""},
		"a key of ours gives the pool's":   {true, "pool", "Bearer ours", "Bearer pool"},
		"the scheme in any case":           {true, "pool", "bEARER  ours ", "Bearer pool"},
		"another scheme passes without us": {false, "", "Basic dTpw", "Basic dTpw"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen <-chan http.Header
			r := newTestProxy(t, func(p *fixture) {
				seen = captureHeaders(p)
				p.pool.UpstreamKey = c.key
				if c.clients {
					withClient("ours")(p)
				}
			})
			var header []string
			if c.sent != "" {
				header = []string{"Authorization", c.sent}
			}
			r.wantCompleted(r.chat(header...))
			if got := strings.Join((<-seen)["Authorization"], "|"); got != c.want {
				t.Errorf("upstream saw %q, want %q", got, c.want)
			}
			if o := r.task(1); (o.Client == "team") != c.clients {
				t.Errorf("client %q", o.Client)
			}
		})
	}
}

// A client that may only do batch work cannot make its way to the front.
func TestBatchClientCannotUpgradeClass(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		withClient("k")(p)
		p.config.Clients[1].Class = admission.Batch
	})
	for i, asked := range []string{"interactive", "batch"} {
		r.wantCompleted(r.chat("Authorization", "Bearer k", priorityHeader, asked))
		if o := r.task(i + 1); o.Class != admission.Batch {
			t.Errorf("asked for %s, class %s", asked, o.Class)
		}
	}
}

// The base URL of an upstream may carry a path of its own.
func TestUpstreamBase(t *testing.T) {
	for base, want := range map[string]string{
		"http://h/v1":         "http://h/v1/chat/completions?a=b%2Fc",
		"http://h/v1/":        "http://h/v1/chat/completions?a=b%2Fc",
		"http://h":            "http://h/chat/completions?a=b%2Fc",
		"https://h:8/x/y%20z": "https://h:8/x/y%20z/chat/completions?a=b%2Fc",
	} {
		if got := upstreamURL(must(url.Parse(base)), must(url.Parse(chatPath+"?a=b%2Fc"))); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}
