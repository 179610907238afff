package harness

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"headgate/internal/modelstub"
)

// maxRequests bounds the requests that a stub remembers.
const maxRequests = 10_000

// Stub is the stand-in endpoint behind a real listener.
type Stub struct {
	*modelstub.Stub
	URL string // without /v1

	mu       sync.Mutex
	requests []StubRequest
}

// StubRequest is a request as it reached the stub.
type StubRequest struct {
	Path   string
	Header http.Header
	Body   []byte
	Length int64 // Content-Length, -1 when the body was chunked
}

// StartStub starts a stub on a free loopback port.
func StartStub(t testing.TB, c modelstub.Config) *Stub {
	t.Helper()
	s := &Stub{}
	c.Tap = s.record
	var err error
	if s.Stub, err = modelstub.New(c); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Stub)
	s.URL = server.URL
	t.Cleanup(func() {
		s.Close() // or the server would wait for calls that hang
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// V1 is the base URL for settings and clients.
func (s *Stub) V1() string { return s.URL + "/v1" }

func (s *Stub) record(r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) < maxRequests {
		s.requests = append(s.requests, StubRequest{r.URL.Path, r.Header.Clone(), slices.Clone(body), r.ContentLength})
	}
}

// StubRequest returns the model calls that have reached the stub, in order of arrival.
func (s *Stub) Requests() []StubRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}
