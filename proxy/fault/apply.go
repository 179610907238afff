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

// alteredBody is an answer on its way that something will happen to.
type alteredBody struct {
	io.ReadCloser
	ctx    context.Context // of the call
	lease  *Lease
	intact int64 // bytes that still come through whole; -1: the first few
	done   bool  // it has happened, or never will
}

// readIntact reads what comes through as it is, while there is such.
func (b *alteredBody) readIntact(p []byte) (n int, err error) {
	if b.intact < 0 {
		return b.readFirst(p)
	}
	n, err = b.ReadCloser.Read(p[:min(int64(len(p)), b.intact)])
	b.intact -= int64(n)
	return n, err
}

// readFirst reads a little: nobody knows how much will come.
func (b *alteredBody) readFirst(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p[:min(len(p), firstPieceBytes)])
	if n > 0 {
		b.intact = 0
	}
	return n, err
}

// firstPieceBytes is how much of an answer of unknown length comes through: less than
// the first event of a stream has.
const firstPieceBytes = 16

// truncatedBody breaks an answer off, as a connection that breaks does.
type truncatedBody struct {
	alteredBody
	broken bool
}

func (c *truncatedBody) Read(p []byte) (int, error) {
	switch {
	case c.broken:
		return 0, io.ErrUnexpectedEOF
	case c.done || len(p) == 0:
		return c.ReadCloser.Read(p)
	case c.intact != 0:
		return c.readIntact(p)
	}
	c.done = true
	if !c.lease.hit(c.ctx) {
		return c.ReadCloser.Read(p)
	}
	c.broken = true
	_ = c.ReadCloser.Close() // the upstream is let go; what it would have said nobody hears
	return 0, io.ErrUnexpectedEOF
}

// malformedBody makes a piece of an answer garbage of the same length.
type malformedBody struct{ alteredBody }

// garbage has what no text has, and leaves quotes and braces open: neither JSON nor
// an event survives it.
const garbage = "\x00\xff\x00\xff\"{\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff"

func (g *malformedBody) Read(p []byte) (int, error) {
	switch {
	case g.done || len(p) == 0:
		return g.ReadCloser.Read(p)
	case g.intact != 0:
		return g.readIntact(p)
	}
	n, err := g.ReadCloser.Read(p[:min(len(p), len(garbage))])
	if n == 0 {
		return n, err
	}
	g.done = true
	if g.lease.hit(g.ctx) {
		copy(p[:n], garbage)
	}
	return n, err
}

// drippedBody lets an answer through in small pieces.
type drippedBody struct {
	alteredBody
	n        uint64
	dripping bool
}

// dripBytes is how many bytes come at a time.
const dripBytes = 16

func (d *drippedBody) Read(p []byte) (int, error) {
	switch {
	case d.done || len(p) == 0:
		return d.ReadCloser.Read(p)
	case d.intact != 0:
		return d.readIntact(p)
	}
	if !d.dripping && !d.lease.hit(d.ctx) || d.dripping && !d.lease.Active() {
		d.done = true
		return d.ReadCloser.Read(p)
	}
	d.dripping = true
	if err := d.lease.stall(d.ctx, d.pause()); err != nil {
		return 0, err
	}
	return d.ReadCloser.Read(p[:min(len(p), dripBytes)])
}

func (d *drippedBody) pause() time.Duration {
	d.n++
	return d.lease.delay(d.n)
}
