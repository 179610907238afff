package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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
