package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"headgate/proxy/admission"
)

var errUpstreamIdle = errors.New("upstream went silent")

// watchdog cancels a request whose upstream says nothing for too long.
type watchdog struct {
	timer         *time.Timer
	idle          time.Duration
	trailingUntil time.Time // from which on no more is listened to; zero before the answer's end
}

func (t *task) startWatchdog() (context.Context, *watchdog, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(t.r.Context())
	idle := t.pool.IdleTimeout
	d := &watchdog{idle: idle, timer: time.AfterFunc(idle, func() { cancel(errUpstreamIdle) })}
	return ctx, d, func() {
		d.timer.Stop()
		cancel(nil)
	}
}

// start starts to count the upstream's silence.
func (d *watchdog) start() {
	idle := d.idle
	if !d.trailingUntil.IsZero() {
		idle = min(idle, time.Until(d.trailingUntil))
	}
	d.timer.Reset(idle)
}

// stop stops counting: it is the client's turn.
func (d *watchdog) stop() { d.timer.Stop() }

// limitTrailing bounds what may still come after an answer's end: an upstream must not
// keep a permit by talking on.
func (d *watchdog) limitTrailing() {
	if d.trailingUntil.IsZero() {
		d.trailingUntil = time.Now().Add(trailingMax)
		d.idle = min(d.idle, trailingIdle)
	}
}

// forward sends the task upstream and its answer back.
func (t *task) forward(body []byte) *failure {
	ctx, dog, stop := t.startWatchdog()
	defer stop()
	res, err := t.pool.transport.RoundTrip(t.upstreamRequest(ctx, body))
	if err != nil {
		return t.roundTripFailure(ctx, err)
	}
	defer res.Body.Close()
	dog.stop()
	if err := checkAnswerStatus(res); err != nil {
		return t.roundTripFailure(ctx, err)
	}
	if t.keepAliveSent {
		return t.resumeStream(ctx, res, dog)
	}
	return t.relayAnswer(ctx, res, dog)
}

// upstreamRequest returns what goes upstream. It can be sent again, as the
// transport does when a connection turns out to be closed already.
func (t *task) upstreamRequest(ctx context.Context, body []byte) *http.Request {
	getBody := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := getBody() // never fails
	if len(body) == 0 {
		first = http.NoBody
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: joinUpstreamURL(t.pool.Upstream, t.r.URL),
		Header: t.pool.upstreamHeader(t.table, t.r.Header),
		Body:   first, GetBody: getBody, ContentLength: int64(len(body)),
	}).WithContext(ctx)
	req.Header[requestIDHeader] = []string{t.obs.RequestID}
	if t.traceparent != "" {
		req.Header[traceparentHeader] = []string{t.traceparent}
	}
	if t.keepAliveSent {
		req.Header.Del("Accept-Encoding") // the headers that would name an encoding have gone out
	}
	return req
}

// upstreamHeader returns the headers for the upstream. The client's own
// Authorization goes on only where no keys of ours are in play.
func (p *pool) upstreamHeader(tab *routingTable, in http.Header) http.Header {
	h := requestHeader(in)
	if len(tab.clients) > 0 {
		delete(h, "Authorization")
	}
	if p.UpstreamKey != "" {
		h["Authorization"] = []string{"Bearer " + p.UpstreamKey}
	}
	return h
}

func upstreamURL(base, in *url.URL) string { return joinUpstreamURL(base, in).String() }

// joinUpstreamURL puts a request's path below /v1 and its query on the base.
func joinUpstreamURL(base, in *url.URL) *url.URL {
	u := *base
	u.Path = strings.TrimSuffix(base.Path, "/") + strings.TrimPrefix(in.Path, "/v1")
	u.RawPath = ""
	u.RawQuery = in.RawQuery
	return &u
}

// checkAnswerStatus returns an error if a response has a status that no answer can have.
func checkAnswerStatus(res *http.Response) error {
	if res.StatusCode < 200 || res.StatusCode > 999 {
		return fmt.Errorf("status %d is not an answer", res.StatusCode)
	}
	return nil
}

// roundTripFailure says why there is no answer to pass on.
func (t *task) roundTripFailure(ctx context.Context, err error) *failure {
	switch {
	case errors.Is(context.Cause(ctx), errUpstreamIdle):
		return upstreamFailure(http.StatusGatewayTimeout, admission.UpstreamTimeout, "upstream_timeout",
			"The model endpoint did not answer in time.", errUpstreamIdle)
	case t.r.Context().Err() != nil:
		return clientGone(t.r.Context().Err())
	default:
		return upstreamFailure(http.StatusBadGateway, admission.UpstreamError, "upstream_unreachable",
			"The model endpoint could not be reached, or broke off before it answered.", scrub(err))
	}
}

// relayAnswer passes the upstream's answer on as it comes.
func (t *task) relayAnswer(ctx context.Context, res *http.Response, dog *watchdog) *failure {
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
	if streams { // the first event may be long in coming; clients give up on headers sooner
		if f := t.send(nil, true); f != nil {
			return f
		}
	}
	end := t.newDetector(res, streams)
	defer end.close()
	if f := t.copyBody(ctx, res, dog, end); f != nil {
		return f
	}
	copyTrailers(h, res.Trailer, announced)
	t.setOutcome(res.StatusCode, end.upstreamFailed())
	return nil
}

// setOutcome names the outcome of an answer that was passed on whole.
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

const (
	copyBuffer = 8 << 10
	// trailingIdle is how long an upstream may keep a stream open after its terminal
	// event. Old SDKs wait for the end of the connection, and so does the permit.
	// Both its silence and all that it still says are bounded.
	trailingIdle = 2 * time.Second
	trailingMax  = 10 * time.Second
)

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

var errTruncated = errors.New("the answer ended without its proper end")

// copyBody passes the body on, byte for byte, as it comes. Each piece is looked
// at before it goes out, so that the last one can be withheld from an answer
// that turns out to be cut short: a client must not take it for a whole one.
func (t *task) copyBody(ctx context.Context, res *http.Response, dog *watchdog, end answerDetector) *failure {
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	c := copier{left: res.ContentLength, flush: res.ContentLength < 0 || isEventStream(res.Header.Get("Content-Type"))}
	for {
		dog.start()
		n, err := res.Body.Read(buf[:])
		dog.stop()
		if f := t.copyPiece(buf[:n], end, &c); f != nil {
			return f
		}
		switch {
		case err == io.EOF:
			if !end.complete() {
				return abortedAnswer(admission.Truncated, errTruncated)
			}
			return nil
		case err != nil:
			return t.readFailure(ctx, err, end)
		case end.terminated():
			dog.limitTrailing()
		}
	}
}

// copier is the state of one body on its way.
type copier struct {
	left  int64 // bytes still announced, negative if unknown
	flush bool
}

func (t *task) copyPiece(p []byte, end answerDetector, c *copier) *failure {
	if len(p) == 0 {
		return nil
	}
	if t.obs.FirstByte == 0 {
		t.obs.FirstByte = time.Since(t.obs.Arrived)
	}
	end.observe(p)
	if c.left -= int64(len(p)); c.left == 0 && !end.complete() {
		return abortedAnswer(admission.Truncated, errTruncated)
	}
	return t.send(p, c.flush)
}

// extendWriteDeadline gives the client its time to take what comes next. The deadline
// stays with the connection, so one left behind would break a later answer.
func (t *task) extendWriteDeadline() {
	limit := t.p.timeouts.ClientWrite
	if now := time.Now(); needsExtension(t.deadlines.write, now, limit) {
		t.deadlines.write = now.Add(limit)
		_ = t.rc.SetWriteDeadline(t.deadlines.write) // what cannot have one has no client that could be slow
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

// readFailure says who broke an answer off that had begun.
func (t *task) readFailure(ctx context.Context, err error, end answerDetector) *failure {
	silent := errors.Is(context.Cause(ctx), errUpstreamIdle)
	switch {
	case silent && end.closeAndTerminated():
		return nil
	case silent:
		return abortedAnswer(admission.UpstreamTimeout, errUpstreamIdle)
	case t.r.Context().Err() != nil:
		return clientGone(t.r.Context().Err())
	default:
		return abortedAnswer(admission.Truncated, scrub(err))
	}
}

// streamErrorLimit is how much of an upstream's error is told inside a stream.
const streamErrorLimit = 64 << 10

// resumeStream passes the body on into a stream that has been kept alive so far.
// What is not a stream cannot be told there but as an error.
func (t *task) resumeStream(ctx context.Context, res *http.Response, dog *watchdog) *failure {
	plain := isIdentity(res.Header.Get("Content-Encoding"))
	if res.StatusCode != http.StatusOK || !isEventStream(res.Header.Get("Content-Type")) || !plain {
		return t.resumeWithError(res, dog)
	}
	end := t.newDetector(res, true)
	defer end.close()
	t.keepAliveSent = false // from here on, only breaking off tells an error
	if f := t.copyBody(ctx, res, dog, end); f != nil {
		return f
	}
	t.setOutcome(res.StatusCode, end.upstreamFailed())
	return nil
}

// resumeWithError tells an answer that is not a stream inside one.
func (t *task) resumeWithError(res *http.Response, dog *watchdog) *failure {
	dog.start()
	body, _ := io.ReadAll(io.LimitReader(res.Body, streamErrorLimit)) // what has come is good enough
	dog.stop()
	t.setOutcome(res.StatusCode, res.StatusCode == http.StatusOK)
	var line bytes.Buffer
	if gjson.GetBytes(body, "error").IsObject() && json.Compact(&line, body) == nil {
		writeStreamError(t.w, t.rc, line.Bytes())
		return nil
	}
	return &failure{
		status: res.StatusCode, kind: "server_error", code: "upstream_error", outcome: t.obs.Outcome,
		message: fmt.Sprintf("The model endpoint answered with status %d.", res.StatusCode),
	}
}

// writeStreamError tells a failure inside a stream whose status has gone out.
func writeStreamError(w http.ResponseWriter, rc *http.ResponseController, body []byte) {
	// The client may have gone; there is nobody left to tell.
	_, _ = w.Write(append(append([]byte("data: "), bytes.TrimSpace(body)...), "\n\n"...))
	_ = rc.Flush()
}

const (
	// Of an upstream connection, in each direction: enough for the usual request
	// in one write. An open stream holds both, and a copyBuffer.
	connBuffer   = 8 << 10
	maxIdleConns = 1024
)

// newTransport returns a pool's own way to its upstream: no shared limits, no
// compression of our own (what the client asks for is what it gets), and enough
// idle connections for all that can be in flight.
func newTransport(p Pool) *http.Transport {
	dialer := &net.Dialer{Timeout: p.ConnectTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   p.ConnectTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       connBuffer,
		ReadBufferSize:        connBuffer,
	}
}

// abortConn ends an answer so that no client takes what has come for the whole:
// it panics with http.ErrAbortHandler. That closes the connection, by which
// HTTP/1.1 can tell, since the last chunk or some announced bytes are missing.
// To HTTP/1.0 an answer without a length ends when the connection closes (RFC
// 9112, 6.3), so there only a reset is an error. Old versions of nginx speak
// HTTP/1.0 to what is behind them.
func abortConn(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		resetConn(w)
	}
	panic(http.ErrAbortHandler)
}

// resetConn drops the connection to the client, and what has not been sent
// yet. What cannot be reset is left for net/http to close.
func resetConn(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // closing is all that can be done without it
	}
	_ = conn.Close() // it is gone either way
}
