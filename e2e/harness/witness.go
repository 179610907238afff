package harness

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// Witness relays everything to a gate and notes it.
type Witness struct {
	URL string // without /v1

	mu        sync.Mutex
	exchanges []Exchange
}

// Exchange is one request and the beginning of its answer.
type Exchange struct {
	Path    string
	Request http.Header
	Asked   time.Time // the request came
	Status  int       // 0 when no answer came
	Answer  http.Header
	Told    time.Time // the answer's headers came
}

// StartWitness starts a relay to a URL without a path.
func StartWitness(t testing.TB, target string) *Witness {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	w := &Witness{}
	transport := &http.Transport{DisableCompression: true}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport:     noting{w, transport},
	})
	w.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return w
}

// Exchanges returns what passed so far, in order of the answers.
func (w *Witness) Exchanges() []Exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.exchanges)
}

func (w *Witness) note(e Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanges = append(w.exchanges, e)
}

// noting is the witness's side towards the gate.
type noting struct {
	witness *Witness
	next    http.RoundTripper
}

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	e := Exchange{Path: r.URL.Path, Request: r.Header.Clone(), Asked: time.Now()}
	res, err := n.next.RoundTrip(r)
	e.Told = time.Now()
	if err == nil {
		e.Status, e.Answer = res.StatusCode, res.Header.Clone()
	}
	n.witness.note(e)
	return res, err
}
