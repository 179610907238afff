package fault

import (
	"context"
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

// apply applies the fault to a call. A call that the fault has released, or does not
// hit after all, goes upstream unchanged.
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

// delayCall sends a call upstream after d.
func (l *Lease) delayCall(r *http.Request, d time.Duration) (*http.Response, error) {
	if l.hit(r.Context()) {
		if err := l.stall(r.Context(), d); err != nil {
			closeRequestBody(r)
			return nil, err
		}
	}
	return l.injector.next.RoundTrip(r)
}

// delay varies from call to call as evenly as the calls are selected.
func (l *Lease) delay(n uint64) time.Duration {
	return l.fault.Delay + time.Duration((2*weyl(n, math.Sqrt2, 0)-1)*float64(l.fault.Jitter))
}

// closeRequestBody does what a round tripper owes a request that it does not send.
func closeRequestBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was read from it
	}
}

// errorStatus is an error answer in OpenAI's shape.
func errorStatus(r *http.Request, code int) *http.Response {
	text := fmt.Sprintf(`{"error":{"message":"This error was injected by a drill.",`+
		`"type":"server_error","param":null,"code":"injected_%d"}}`, code)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}
}

// alterAnswer sends a call upstream and alters its answer.
func (l *Lease) alterAnswer(r *http.Request, n uint64) (*http.Response, error) {
	res, err := l.injector.next.RoundTrip(r)
	if err != nil || res.Body == nil || res.ContentLength == 0 {
		return res, err
	}
	b := &alteredBody{
		ReadCloser: res.Body, ctx: r.Context(), lease: l, call: n,
		intact: intactBytes(l.fault.AfterBytes, res.ContentLength),
	}
	switch l.fault.Kind {
	case Truncate:
		b.alter = b.truncate
	case Malformed:
		b.alter = b.corrupt
	default:
		b.alter = b.drip
	}
	res.Body = b
	return res, nil
}

// intactBytes is how many bytes of an answer pass unchanged; -1: the first few,
// however many the first read brings.
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

// alteredBody is an answer that a fault alters after its intact bytes.
type alteredBody struct {
	io.ReadCloser
	ctx    context.Context // of the call
	lease  *Lease
	call   uint64 // its number, which varies the delays of drip
	intact int64  // bytes that still pass unchanged; -1: the first few
	alter  func(p []byte) (int, error)
	hit    bool // the fault has altered the answer
	done   bool // the fault is over, or never applied
}

const (
	// firstPieceBytes is how much of an answer of unknown length passes unchanged:
	// less than the first event of a stream.
	firstPieceBytes = 16
	// dripBytes is how many bytes of a slow answer come at a time.
	dripBytes = 16
	// garbage is no valid text and leaves quotes and braces open, so that neither JSON
	// nor an event survives it.
	garbage = "\x00\xff\x00\xff\"{\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff"
)

// Read reads the intact bytes as they are, and alters those after them.
func (b *alteredBody) Read(p []byte) (n int, err error) {
	switch {
	case b.done || len(p) == 0:
		return b.ReadCloser.Read(p)
	case b.intact > 0:
		n, err = b.ReadCloser.Read(p[:min(int64(len(p)), b.intact)])
		b.intact -= int64(n)
		return n, err
	case b.intact < 0:
		if n, err = b.ReadCloser.Read(p[:min(len(p), firstPieceBytes)]); n > 0 {
			b.intact = 0
		}
		return n, err
	}
	return b.alter(p)
}

// truncate ends an answer as a broken connection does.
func (b *alteredBody) truncate(p []byte) (int, error) {
	if b.hit {
		return 0, io.ErrUnexpectedEOF
	}
	if !b.lease.hit(b.ctx) {
		b.done = true
		return b.ReadCloser.Read(p)
	}
	b.hit = true
	_ = b.ReadCloser.Close() // frees the upstream; the rest of its answer is discarded
	return 0, io.ErrUnexpectedEOF
}

// corrupt replaces a piece of an answer by garbage of the same length.
func (b *alteredBody) corrupt(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), len(garbage))])
	if n == 0 {
		return n, err
	}
	b.done = true
	if b.lease.hit(b.ctx) {
		copy(p[:n], garbage)
	}
	return n, err
}

// drip slows an answer down to small pieces.
func (b *alteredBody) drip(p []byte) (int, error) {
	if !b.hit && !b.lease.hit(b.ctx) || b.hit && !b.lease.Active() {
		b.done = true
		return b.ReadCloser.Read(p)
	}
	b.hit = true
	b.call++
	if err := b.lease.stall(b.ctx, b.lease.delay(b.call)); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p[:min(len(p), dripBytes)])
}
