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

// RecordingProxy forwards requests to a gate and records the exchanges: clients hide when
// and how often they retry.
type RecordingProxy struct {
	URL string // without /v1

	mu        sync.Mutex
	exchanges []Exchange
}

// Exchange is a request and the headers of its answer.
type Exchange struct {
	Path           string
	RequestHeader  http.Header
	RequestedAt    time.Time // the request arrived
	Status         int       // 0: no answer
	ResponseHeader http.Header
	RespondedAt    time.Time // the headers of the answer arrived
}

// StartRecordingProxy starts a proxy to a URL without a path.
func StartRecordingProxy(t testing.TB, target string) *RecordingProxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	w := &RecordingProxy{}
	transport := &http.Transport{DisableCompression: true}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport:     recordingTransport{w, transport},
	})
	w.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return w
}

// Exchanges returns the exchanges so far, in order of the answers.
func (w *RecordingProxy) Exchanges() []Exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.exchanges)
}

func (w *RecordingProxy) record(e Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanges = append(w.exchanges, e)
}

// recordingTransport records what the proxy sends to the gate.
type recordingTransport struct {
	proxy *RecordingProxy
	next  http.RoundTripper
}

func (n recordingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := Exchange{Path: r.URL.Path, RequestHeader: r.Header.Clone(), RequestedAt: time.Now()}
	res, err := n.next.RoundTrip(r)
	e.RespondedAt = time.Now()
	if err == nil {
		e.Status, e.ResponseHeader = res.StatusCode, res.Header.Clone()
	}
	n.proxy.record(e)
	return res, err
}
