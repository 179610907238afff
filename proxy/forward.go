package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"headgate/proxy/admission"
)

const (
	copyBuffer = 8 << 10
	// trailingIdle is how long an upstream may keep a stream open after its terminal
	// event. Old SDKs wait for the end of the connection, and so does the permit.
	// Both its silence and everything that it still sends are bounded.
	trailingIdle = 2 * time.Second
	trailingMax  = 10 * time.Second

	streamErrorLimit = 64 << 10 // bytes of an upstream's error that are sent inside a stream
)

var (
	errUpstreamIdle = errors.New("upstream went silent")
	errTrailing     = errors.New("upstream kept sending after the end of its answer")
	errTruncated    = errors.New("answer ended without its proper end")
)

// idleTimer cancels a request whose upstream is silent for too long.
type idleTimer struct {
	timer         *time.Timer
	limit         time.Duration
	trailingUntil time.Time // end of reading after the answer's end; zero before that
	cancel        func()    // of the request
}

func (t *task) startIdleTimer() (context.Context, *idleTimer, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(t.r.Context())
	limit := t.pool.IdleTimeout
	i := &idleTimer{limit: limit, cancel: func() { cancel(nil) }, timer: time.AfterFunc(limit, func() { cancel(errUpstreamIdle) })}
	return ctx, i, func() {
		i.timer.Stop()
		cancel(nil)
	}
}

// start starts timing the upstream's silence.
func (i *idleTimer) start() {
	limit := i.limit
	if !i.trailingUntil.IsZero() {
		limit = min(limit, time.Until(i.trailingUntil))
	}
	i.timer.Reset(limit)
}

// stop stops timing while the proxy waits for the client.
func (i *idleTimer) stop() { i.timer.Stop() }

// limitTrailing bounds what may follow an answer's end: an upstream must not keep a
// permit by sending on.
func (i *idleTimer) limitTrailing() {
	if i.trailingUntil.IsZero() {
		i.trailingUntil = time.Now().Add(trailingMax)
		i.limit = min(i.limit, trailingIdle)
	}
}

// exceeded reports whether the upstream still sends long after its answer's end.
func (i *idleTimer) exceeded() bool {
	return !i.trailingUntil.IsZero() && !time.Now().Before(i.trailingUntil)
}

// forward sends the task upstream and relays the answer.
func (t *task) forward(body []byte) *failure {
	ctx, idle, stop := t.startIdleTimer()
	defer stop()
	req := t.upstreamRequest(ctx, body)
	res, f, err := t.roundTrip(req, stop)
	if err == nil {
		defer res.Body.Close()
	}
	switch {
	case f != nil:
		return f
	case err != nil:
		return t.roundTripFailure(ctx, err)
	}
	idle.stop()
	if err := checkAnswerStatus(res); err != nil {
		return t.roundTripFailure(ctx, err)
	}
	if t.keepAliveSent {
		return t.resumeStream(ctx, res, idle)
	}
	return t.relayAnswer(ctx, res, idle)
}

// upstreamRequest returns the request for the upstream. Its body can be sent again.
func (t *task) upstreamRequest(ctx context.Context, body []byte) *http.Request {
	getBody := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := getBody() // never fails
	if len(body) == 0 {
		first = http.NoBody
	}
	req := (&http.Request{
		Method: t.r.Method, URL: joinUpstreamURL(t.pool.Upstream, t.r.URL),
		Header: t.pool.upstreamHeader(t.table, t.r.Header),
		Body:   first, GetBody: getBody, ContentLength: int64(len(body)),
	}).WithContext(t.allowRetry(ctx, body))
	req.Header[requestIDHeader] = []string{t.obs.RequestID}
	if t.traceparent != "" {
		req.Header[traceparentHeader] = []string{t.traceparent}
	}
	if t.keepsAlive() {
		req.Header.Del("Accept-Encoding") // comments are not encoded, and their headers announce no encoding
	}
	return req
}

// upstreamHeader returns the headers for the upstream. The client's keys are forwarded
// only if neither the proxy has client keys of its own nor the pool one for its upstream.
func (p *pool) upstreamHeader(tab *routingTable, in http.Header) http.Header {
	h := requestHeader(in)
	if len(tab.clients) > 0 || p.UpstreamKey != "" {
		for _, name := range keyHeaders {
			delete(h, name)
		}
	}
	switch name := http.CanonicalHeaderKey(p.KeyHeader); {
	case p.UpstreamKey == "":
	case name == "" || name == "Authorization":
		h["Authorization"] = []string{"Bearer " + p.UpstreamKey}
	default:
		h[name] = []string{p.UpstreamKey}
	}
	return h
}

// checkAnswerStatus returns an error if a response has a status that no answer can have.
func checkAnswerStatus(res *http.Response) error {
	if res.StatusCode < 200 || res.StatusCode > 999 {
		return fmt.Errorf("status %d is not an answer", res.StatusCode)
	}
	return nil
}

// roundTripFailure returns why there is no answer to relay.
func (t *task) roundTripFailure(ctx context.Context, err error) *failure {
	switch {
	case errors.Is(context.Cause(ctx), errUpstreamIdle):
		t.pool.upstreamSilent()
		return upstreamFailure(http.StatusGatewayTimeout, admission.UpstreamTimeout, "upstream_timeout",
			"The model endpoint did not answer in time.", errUpstreamIdle)
	case t.r.Context().Err() != nil:
		return clientGone(t.r.Context().Err())
	default:
		return upstreamFailure(http.StatusBadGateway, admission.UpstreamError, "upstream_unreachable",
			"The model endpoint could not be reached, or closed the connection before it answered.", scrub(err))
	}
}

// relayAnswer relays the upstream's answer as it arrives.
func (t *task) relayAnswer(ctx context.Context, res *http.Response, idle *idleTimer) *failure {
	h := t.w.Header()
	copyResponseHeader(h, res.Header)
	announced := len(res.Trailer)
	announceTrailers(h, res.Trailer)
	t.setIDs()
	h.Set("Headgate-Queue-Wait-Ms", strconv.FormatInt(t.obs.Queued.Milliseconds(), 10))
	streams := isEventStream(res.Header.Get("Content-Type"))
	if streams {
		h.Set("X-Accel-Buffering", "no")
	}
	t.headersSent = true
	t.obs.Status = res.StatusCode
	t.w.WriteHeader(res.StatusCode)
	if streams { // the first event may take long; clients wait less long for headers
		if f := t.send(nil, true); f != nil {
			return f
		}
	}
	end := t.detectEnd(res)
	defer end.close()
	if f := t.copyBody(ctx, res, idle, end); f != nil {
		return f
	}
	copyTrailers(h, res.Trailer, announced)
	return nil
}

// resumeStream relays the body into a stream that has been kept alive so far. An
// answer that is not a stream can only be sent there as an error.
func (t *task) resumeStream(ctx context.Context, res *http.Response, idle *idleTimer) *failure {
	plain := isIdentity(res.Header.Get("Content-Encoding"))
	if res.StatusCode != http.StatusOK || !isEventStream(res.Header.Get("Content-Type")) || !plain {
		return t.resumeWithError(res, idle)
	}
	end := t.detectEnd(res)
	defer end.close()
	t.keepAliveSent = false // from here on, an error can only abort the answer
	return t.copyBody(ctx, res, idle, end)
}

// resumeWithError sends an answer that is not a stream as an error inside one.
func (t *task) resumeWithError(res *http.Response, idle *idleTimer) *failure {
	idle.start()
	body, _ := io.ReadAll(io.LimitReader(res.Body, streamErrorLimit)) // an incomplete error will do
	idle.stop()
	t.setOutcome(res.StatusCode, res.StatusCode == http.StatusOK)
	var line bytes.Buffer
	if gjson.GetBytes(body, "error").IsObject() && json.Compact(&line, body) == nil {
		t.writeStreamError(line.Bytes())
		return nil
	}
	return &failure{
		status: res.StatusCode, kind: "server_error", code: "upstream_error", outcome: t.obs.Outcome,
		message: fmt.Sprintf("The model endpoint answered with status %d.", res.StatusCode),
	}
}

// writeStreamError sends an error body inside a stream whose status has been sent.
func (t *task) writeStreamError(body []byte) {
	_, _ = t.w.Write(streamErrorEvent(t.r.URL.Path, body)) // the client may have left
	_ = t.rc.Flush()
}

// setOutcome sets the outcome of an answer whose end was relayed.
func (t *task) setOutcome(status int, failed bool) {
	switch {
	case status == http.StatusTooManyRequests:
		t.obs.Outcome = admission.UpstreamRefused
	case status >= 500 || failed:
		t.obs.Outcome = admission.UpstreamError
	default:
		t.obs.Outcome = admission.Completed
		if status < 400 {
			t.sample = admission.Served
		}
	}
}

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// copyBody relays the body byte for byte as it arrives. Each piece is inspected
// before it is sent, so that the last one can be withheld from an answer that
// turns out to be truncated: a client must not take it for a complete one. Once the
// end has gone out the answer is whole, whichever side closes first.
func (t *task) copyBody(ctx context.Context, res *http.Response, idle *idleTimer, end *answerDetector) *failure {
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	flush := res.ContentLength < 0 || isEventStream(res.Header.Get("Content-Type"))
	c := copier{ctx: ctx, res: res, idle: idle, end: end, left: res.ContentLength, flush: flush}
	for {
		idle.start()
		n, f, err := t.readPiece(buf[:], &c)
		idle.stop()
		if f != nil {
			return f
		}
		whole := end.whole()
		if f := t.copyPiece(buf[:n], &c); f != nil {
			if whole && f.outcome == admission.ClientGone {
				return t.ended(&c)
			}
			return f
		}
		switch {
		case err == io.EOF && end.complete():
			return t.ended(&c)
		case err == io.EOF:
			return abortedAnswer(admission.Truncated, errTruncated)
		case err != nil:
			return t.readFailure(err, &c)
		case end.terminated():
			idle.limitTrailing()
		}
	}
}

// readPiece reads what comes next. Until the first byte, the client's stream is kept
// alive.
func (t *task) readPiece(buf []byte, c *copier) (n int, f *failure, err error) {
	if t.obs.FirstByte != 0 || !t.keepsAlive() || !acceptsComments(c.res) {
		n, err = c.res.Body.Read(buf)
		return n, nil, err
	}
	f = t.keepAliveDuring(func() { n, err = c.res.Body.Read(buf) }, c.idle.cancel)
	return n, f, err
}

// copier is the state of one body being relayed.
type copier struct {
	ctx   context.Context // of the request to the upstream
	res   *http.Response
	idle  *idleTimer
	end   *answerDetector
	left  int64 // announced bytes still to come, negative if unknown
	flush bool
}

// ended sets the outcome of an answer whose end has been sent.
func (t *task) ended(c *copier) *failure {
	t.setOutcome(c.res.StatusCode, c.end.upstreamFailed())
	return nil
}

func (t *task) copyPiece(p []byte, c *copier) *failure {
	if len(p) == 0 {
		return nil
	}
	if t.obs.FirstByte == 0 {
		t.obs.FirstByte = time.Since(t.obs.Arrived)
	}
	c.end.observe(p)
	if c.left -= int64(len(p)); c.left == 0 && !c.end.complete() {
		return abortedAnswer(admission.Truncated, errTruncated)
	}
	return t.send(p, c.flush)
}

// extendWriteDeadline gives the client the whole timeout to take what comes next.
// The deadline stays with the connection, so an old one would break a later answer.
func (t *task) extendWriteDeadline() {
	limit := t.p.timeouts.ClientWrite
	if now := time.Now(); needsExtension(t.deadlines.write, now, limit) {
		t.deadlines.write = now.Add(limit)
		_ = t.rc.SetWriteDeadline(t.deadlines.write) // a writer without deadlines has no slow client
	}
}

// send writes to the client.
func (t *task) send(p []byte, flush bool) *failure {
	t.extendWriteDeadline()
	if _, err := t.w.Write(p); err != nil {
		return clientGone(err)
	}
	if flush {
		if err := t.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return clientGone(err)
		}
	}
	return nil
}

// readFailure returns who ended an answer that had begun, nil if its end had been sent
// before. What is cut here is aborted in any case, whatever its outcome.
func (t *task) readFailure(err error, c *copier) *failure {
	c.end.close() // all that it observed has been sent
	silent := errors.Is(context.Cause(c.ctx), errUpstreamIdle)
	gone := t.r.Context().Err()
	switch {
	case silent && c.end.terminated() && c.idle.exceeded():
		t.ended(c)
		return abortedAnswer(t.obs.Outcome, errTrailing)
	case c.end.terminated(), !silent && gone != nil && c.end.whole():
		return t.ended(c)
	case silent && c.end.upstreamFailed():
		return abortedAnswer(admission.UpstreamError, errUpstreamIdle)
	case silent:
		t.pool.upstreamSilent()
		return abortedAnswer(admission.UpstreamTimeout, errUpstreamIdle)
	case gone != nil:
		return clientGone(gone)
	default:
		return abortedAnswer(admission.Truncated, scrub(err))
	}
}

// abortConn ends an answer so that no client takes it for complete: it panics with
// http.ErrAbortHandler. That closes the connection, which an HTTP/1.1 client
// detects, since the last chunk or some announced bytes are missing. For HTTP/1.0 an
// answer without a length ends when the connection closes (RFC 9112, 6.3), so there
// only a reset is an error. Old versions of nginx speak HTTP/1.0 to their upstreams.
func abortConn(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		resetConn(w)
	}
	panic(http.ErrAbortHandler)
}

// resetConn resets the connection to the client and discards what has not been sent
// yet. net/http closes a connection that cannot be reset.
func resetConn(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // without it, the close is an ordinary one
	}
	_ = conn.Close()
}
