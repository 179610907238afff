package proxy

import (
	"net/http"
	"time"
)

// keepsAlive reports whether the client gets comments until the answer begins. Only an
// SSE stream has comments.
func (t *task) keepsAlive() bool {
	return t.pool.StreamKeepAlive > 0 && t.info.stream && t.proto != protocolOllama && t.proto != protocolJSON
}

// keepAlive sends a comment of one line without an event's end: the only thing
// that every known client ignores. The first one commits a 200.
func (t *task) keepAlive() *failure {
	if !t.headersSent {
		t.headersSent, t.keepAliveSent = true, true
		t.setIDs()
		h := t.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		t.obs.Status = http.StatusOK
		t.w.WriteHeader(http.StatusOK)
	}
	return t.send([]byte(": waiting\n"), true)
}

// keepAliveDuring calls wait, and sends comments until it has returned. If the client
// takes none, cancel must make it return.
func (t *task) keepAliveDuring(wait, cancel func()) (f *failure) {
	if !t.keepsAlive() {
		wait()
		return nil
	}
	var caught any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { caught = recover() }()
		wait()
	}()
	ticker := time.NewTicker(t.pool.StreamKeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			if caught != nil {
				panic(caught)
			}
			return f
		case <-ticker.C:
			if f == nil {
				if f = t.keepAlive(); f != nil {
					cancel()
				}
			}
		}
	}
}

// roundTrip sends a request to the upstream and keeps the client's stream alive until
// the answer begins. It may return both an answer and a failure to send a comment.
func (t *task) roundTrip(req *http.Request, cancel func()) (res *http.Response, f *failure, err error) {
	f = t.keepAliveDuring(func() { res, err = t.pool.transport.RoundTrip(req) }, cancel)
	return res, f, err
}

// acceptsComments reports whether comments may stand before the first byte of an answer.
func acceptsComments(res *http.Response) bool {
	return res.ContentLength < 0 && isEventStream(res.Header.Get("Content-Type")) &&
		isIdentity(res.Header.Get("Content-Encoding"))
}
