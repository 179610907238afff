package harness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"headgate/internal/modelstub"
)

// ChatRequest is the body of a small chat request to the model of a stub.
const ChatRequest = `{"model":"stub-model","messages":[{"role":"user","content":"hello"}]}`

// maxRequests limits the requests that a stub records.
const maxRequests = 10_000

// Stub is the stub endpoint of internal/modelstub behind a real listener.
type Stub struct {
	*modelstub.Stub
	URL string // without /v1

	mu       sync.Mutex
	requests []StubRequest
}

// StubRequest is a request as the stub received it.
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
		s.Close() // ends calls that hang: the server would wait for them
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// V1 is the base URL with /v1.
func (s *Stub) V1() string { return s.URL + "/v1" }

func (s *Stub) record(r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) < maxRequests {
		s.requests = append(s.requests, StubRequest{r.URL.Path, r.Header.Clone(), slices.Clone(body), r.ContentLength})
	}
}

// Requests returns the model calls that the stub has received, in order.
func (s *Stub) Requests() []StubRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// HeldUpstream is an endpoint that sends the first event of a chat stream, and the rest
// when the test calls Release.
type HeldUpstream struct {
	URL          string // without /v1
	release      func()
	calls        atomic.Int64
	disconnected atomic.Int64
}

// StartHeldUpstream starts a held endpoint on a free loopback port.
func StartHeldUpstream(t testing.TB) *HeldUpstream {
	t.Helper()
	rest := make(chan struct{})
	h := &HeldUpstream{release: sync.OnceFunc(func() { close(rest) })}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices a disconnect only after the body
		h.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		head, tail := heldStream()
		_, _ = io.WriteString(w, head) // an error means that the client has left
		_ = http.NewResponseController(w).Flush()
		select {
		case <-rest:
			_, _ = io.WriteString(w, tail)
		case <-r.Context().Done():
			h.disconnected.Add(1)
		}
	}))
	h.URL = server.URL
	t.Cleanup(func() {
		h.Release()
		server.Close()
	})
	return h
}

// Release completes all answers, also those of later calls.
func (h *HeldUpstream) Release() { h.release() }

// Calls is how many calls have arrived.
func (h *HeldUpstream) Calls() int { return int(h.calls.Load()) }

// Disconnected is how many callers left before their answer had ended.
func (h *HeldUpstream) Disconnected() int { return int(h.disconnected.Load()) }

// heldStream is a complete chat stream with the text "hello", split after its first event.
func heldStream() (head, tail string) {
	for _, s := range modelstub.EdgeCaseStreams() {
		if s.Name == "usage" {
			head, tail, _ = strings.Cut(string(s.Bytes()), "\n\n")
		}
	}
	return head + "\n\n", tail
}
