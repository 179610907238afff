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

// befall lets the fault befall a call. A call that the fault has let go, or could
// not befall after all, goes upstream as if nothing had been.
func (l *Lease) befall(r *http.Request, n uint64) (*http.Response, error) {
	switch l.fault.Kind {
	case Latency:
		return l.late(r, l.delay(n))
	case Hang:
		return l.late(r, forever)
	case Truncate, Drip, Malformed:
		return l.spoil(r, n)
	}
	if !l.strike(r.Context()) {
		return l.owner.next.RoundTrip(r)
	}
	closeBody(r)
	switch l.fault.Kind {
	case Status:
		return errorStatus(r, l.fault.Code), nil
	case Refuse:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	default:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
}

// late lets a call go upstream after d.
func (l *Lease) late(r *http.Request, d time.Duration) (*http.Response, error) {
	if l.strike(r.Context()) {
		if err := l.hold(r.Context(), d); err != nil {
			closeBody(r)
			return nil, err
		}
	}
	return l.owner.next.RoundTrip(r)
}

// delay varies from call to call as evenly as the calls are chosen.
func (l *Lease) delay(n uint64) time.Duration {
	return l.fault.Delay + time.Duration((2*spread(n, math.Sqrt2, 0)-1)*float64(l.fault.Jitter))
}

// spoil lets a call through and does something to its answer.
func (l *Lease) spoil(r *http.Request, n uint64) (*http.Response, error) {
	res, err := l.owner.next.RoundTrip(r)
	if err != nil || res.Body == nil || res.ContentLength == 0 {
		return res, err
	}
	b := body{ReadCloser: res.Body, ctx: r.Context(), lease: l, left: passes(l.fault.After, res.ContentLength)}
	switch l.fault.Kind {
	case Truncate:
		res.Body = &cut{body: b}
	case Malformed:
		res.Body = &garbled{body: b}
	default:
		res.Body = &drip{body: b, n: n}
	}
	return res, nil
}

// passes is how many bytes of an answer come through whole; -1: the first few,
// whatever they are.
func passes(after int, length int64) int64 {
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

// closeBody keeps the promise of a round tripper whose call goes nowhere.
func closeBody(r *http.Request) {
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
