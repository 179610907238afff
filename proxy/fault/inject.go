package fault

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// apply lets the fault befall a call. A call that the fault has let go, or could
// not befall after all, goes upstream as if nothing had been.
func (l *Lease) apply(r *http.Request, n uint64) (*http.Response, error) {
	switch l.fault.Kind {
	case Latency:
		return l.delayCall(r, l.delay(n))
	case Hang:
		return l.delayCall(r, untilCleared)
	case Truncate, Drip, Malformed:
		return l.alterAnswer(r, n)
	}
	if !l.hit(r.Context()) {
		return l.injector.next.RoundTrip(r)
	}
	closeRequestBody(r)
	switch l.fault.Kind {
	case Status:
		return errorStatus(r, l.fault.Code), nil
	case Refuse:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	default:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
}

// delayCall lets a call go upstream after d.
func (l *Lease) delayCall(r *http.Request, d time.Duration) (*http.Response, error) {
	if l.hit(r.Context()) {
		if err := l.stall(r.Context(), d); err != nil {
			closeRequestBody(r)
			return nil, err
		}
	}
	return l.injector.next.RoundTrip(r)
}

// delay varies from call to call as evenly as the calls are chosen.
func (l *Lease) delay(n uint64) time.Duration {
	return l.fault.Delay + time.Duration((2*weyl(n, math.Sqrt2, 0)-1)*float64(l.fault.Jitter))
}

// alterAnswer lets a call through and does something to its answer.
func (l *Lease) alterAnswer(r *http.Request, n uint64) (*http.Response, error) {
	res, err := l.injector.next.RoundTrip(r)
	if err != nil || res.Body == nil || res.ContentLength == 0 {
		return res, err
	}
	b := alteredBody{ReadCloser: res.Body, ctx: r.Context(), lease: l, intact: intactBytes(l.fault.AfterBytes, res.ContentLength)}
	switch l.fault.Kind {
	case Truncate:
		res.Body = &truncatedBody{alteredBody: b}
	case Malformed:
		res.Body = &malformedBody{alteredBody: b}
	default:
		res.Body = &drippedBody{alteredBody: b, n: n}
	}
	return res, nil
}

// intactBytes is how many bytes of an answer come through whole; -1: the first few,
// whatever they are.
func intactBytes(after int, length int64) int64 {
	switch {
	case length >= 0 && after > 0:
		return min(int64(after), length/2)
	case length >= 0:
		return length / 2
	case after > 0:
		return int64(after)
	default:
		return -1
	}
}

// closeRequestBody keeps the promise of a round tripper whose call goes nowhere.
func closeRequestBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing has been read that could be lost
	}
}

// errorStatus is an answer in OpenAI's shape.
func errorStatus(r *http.Request, code int) *http.Response {
	text := fmt.Sprintf(`{"error":{"message":"This error was injected by a drill.","type":"server_error","param":null,"code":"injected_%d"}}`, code)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}
}
