package wire

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// testRequest is a request.
type testRequest struct {
	method string // default POST
	path   string
	body   string
	header map[string]string
}

// testResponse is everything that a client can observe of an answer.
type testResponse struct {
	Status   int
	Header   http.Header
	Body     string
	Trailer  http.Header
	Length   int64
	Encoding []string // transfer encoding
	Broken   bool     // it did not end properly, or never began
}

// directAndGated is a stub and a gate in front of it.
type directAndGated struct {
	stub   *harness.Stub
	gate   *harness.Gate
	client *http.Client
}

func newDirectAndGated(t *testing.T, c modelstub.Config, s harness.Settings) *directAndGated {
	t.Helper()
	p := &directAndGated{stub: harness.StartStub(t, c)}
	s.Upstream = p.stub.V1()
	p.gate = harness.StartGate(t, s)
	transport := &http.Transport{DisableCompression: true}
	p.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return p
}

func (a testRequest) request(t *testing.T, base string) *http.Request {
	t.Helper()
	method := a.method
	if method == "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), method, base+a.path, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range a.header {
		r.Header.Set(k, v)
	}
	return r
}

// fetch reads an answer to its end or to an error.
func (p *directAndGated) fetch(t *testing.T, base string, a testRequest) testResponse {
	t.Helper()
	res, err := p.client.Do(a.request(t, base))
	if err != nil {
		return testResponse{Broken: true}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return testResponse{
		Status: res.StatusCode, Header: res.Header, Body: string(body), Trailer: res.Trailer,
		Length: res.ContentLength, Encoding: res.TransferEncoding, Broken: err != nil,
	}
}

// both sends a request to the stub and through the gate.
func (p *directAndGated) both(t *testing.T, a testRequest) (direct, gated testResponse) {
	t.Helper()
	return p.fetch(t, p.stub.URL, a), p.fetch(t, p.gate.URL, a)
}

// addedHeaders are the headers that the gate adds. Date differs by itself.
var addedHeaders = []string{"Date", "Headgate-Task-Id", "Headgate-Queue-Wait-Ms", "X-Accel-Buffering"}

// wantEqualResponse fails on any difference beside the added headers.
func wantEqualResponse(t *testing.T, direct, gated testResponse) {
	t.Helper()
	if gated.Header.Get("Headgate-Task-Id") == "" {
		t.Error("no Headgate-Task-Id in the answer")
	}
	without := func(h http.Header) http.Header {
		h = h.Clone()
		for _, name := range addedHeaders {
			h.Del(name)
		}
		return h
	}
	if direct.Header.Get("X-Request-Id") == "" {
		gated.Header.Del("X-Request-Id") // made by the gate when the upstream makes none
	}
	direct.Header, gated.Header = without(direct.Header), without(gated.Header)
	if direct.Body != gated.Body {
		at := firstDifference(direct.Body, gated.Body)
		t.Errorf("the bodies (%d and %d bytes) differ from byte %d on:\ndirect %.200q\ngated  %.200q",
			len(direct.Body), len(gated.Body), at, direct.Body[at:], gated.Body[at:])
	}
	direct.Body, gated.Body = "", ""
	if diff := cmp.Diff(direct, gated); diff != "" {
		t.Errorf("direct (-), through the gate (+):\n%s", diff)
	}
}

func firstDifference(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// body builds a request's JSON from pieces.
func body(fields ...string) string {
	return "{" + strings.Join(append([]string{`"model":"stub-model"`}, fields...), ",") + "}"
}

const (
	hello    = `"messages":[{"role":"user","content":"hello"}]`
	streamed = `"stream":true`
	usage    = `"stream_options":{"include_usage":true}`
	tools    = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}],"tool_choice":"required"`
)

func repeated(s string, size int) string {
	return string(bytes.Repeat([]byte(s), size/len(s)+1)[:size])
}
