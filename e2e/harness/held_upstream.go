package harness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"headgate/internal/modelstub"
)

// HeldUpstream is an endpoint whose answers end when the test wants them to: it sends
// the first event of a chat stream and holds the rest back.
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
		_, _ = io.Copy(io.Discard, r.Body) // or net/http would not notice who leaves
		h.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		head, tail := heldStream()
		_, _ = io.WriteString(w, head) // who has gone misses nothing
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

// Release lets all answers end, also those to come.
func (h *HeldUpstream) Release() { h.release() }

// Calls is how many calls have come.
func (h *HeldUpstream) Calls() int { return int(h.calls.Load()) }

// Disconnected is how many callers left before their answer had ended.
func (h *HeldUpstream) Disconnected() int { return int(h.disconnected.Load()) }

// heldStream is a whole chat stream with the text "hello", cut after its first
// event.
func heldStream() (head, tail string) {
	for _, o := range modelstub.EdgeCaseStreams() {
		if o.Name == "usage" {
			head, tail, _ = strings.Cut(string(o.Bytes()), "\n\n")
		}
	}
	return head + "\n\n", tail
}
