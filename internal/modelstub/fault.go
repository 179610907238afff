package modelstub

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxFaultDelay bounds every duration of a fault, and how long a hanging call
// is held before its connection is aborted.
const MaxFaultDelay = 10 * time.Minute

// maxAfter bounds the chunk count after which a fault strikes.
const maxAfter = 1_000_000

// Kind is the way in which a fault breaks a call.
type Kind string

// The kinds, named as in [ParseFault]. "After N chunks" counts server-sent
// events; a stream with fewer is struck before its last one, and an answer
// that is not streamed is struck half-way through its body.
const (
	// KindNone breaks nothing; the fault may still add Latency.
	KindNone Kind = ""
	// KindStatus answers with Status and an error body, without taking a slot.
	KindStatus Kind = "status"
	// KindHang holds the call before its headers.
	KindHang Kind = "hang"
	// KindHangAfter holds it after After chunks.
	KindHangAfter Kind = "hang_after"
	// KindReset resets the connection before the headers.
	KindReset Kind = "reset"
	// KindResetAfter resets it after After chunks.
	KindResetAfter Kind = "reset_after"
	// KindTruncate ends the answer after After chunks, cleanly, unless
	// WrongLength is set.
	KindTruncate Kind = "truncate"
	// KindDrip sends the body one byte at a time, Delay apart.
	KindDrip Kind = "drip"
	// KindMalformed breaks the chunked framing after After chunks.
	KindMalformed Kind = "malformed"
	// KindErrorEvent sends data: {"error":…} after After chunks and ends
	// cleanly. An answer that is not streamed becomes a 500.
	KindErrorEvent Kind = "error_event"
	// KindSilence pauses for Delay after After chunks, then goes on.
	KindSilence Kind = "silence"
)

// Fault is one way to misbehave. The zero value does nothing.
type Fault struct {
	Kind Kind
	// Status is the answer of KindStatus, 400 to 599.
	Status int
	// RetryAfter is the Retry-After header of KindStatus, as text so that a
	// wrong one can be sent too. Empty sends none.
	RetryAfter string
	// After is how many chunks pass before the fault strikes.
	After int
	// Delay is the pause of KindDrip (per byte) and KindSilence, in scenario
	// time.
	Delay time.Duration
	// WrongLength makes KindTruncate announce the full Content-Length of an
	// answer that is not streamed and then close the connection half-way.
	WrongLength bool
	// Latency is added before the first byte, in scenario time. It goes with
	// every kind.
	Latency time.Duration
	// Share is the part of all calls that a fault set with [Stub.SetFault]
	// strikes, above 0 and at most 1. 0 is every call. A fault asked for by
	// header always strikes.
	Share float64
}

// Validate reports a value that cannot be meant.
func (f Fault) Validate() error {
	switch {
	case math.IsNaN(f.Share) || f.Share < 0 || f.Share > 1:
		return fmt.Errorf("share: %v, want above 0 and at most 1 (0 is every call)", f.Share)
	case f.After < 0 || f.After > maxAfter:
		return fmt.Errorf("after: %d, want 0 to %d chunks", f.After, maxAfter)
	case f.Delay < 0 || f.Delay > MaxFaultDelay:
		return fmt.Errorf("delay: %v, want 0s to %v", f.Delay, MaxFaultDelay)
	case f.Latency < 0 || f.Latency > MaxFaultDelay:
		return fmt.Errorf("latency: %v, want 0s to %v", f.Latency, MaxFaultDelay)
	}
	return f.validateKind()
}

func (f Fault) validateKind() error {
	switch f.Kind {
	case KindStatus:
		if f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("status: %d, want 400 to 599", f.Status)
		}
	case KindDrip, KindSilence:
		if f.Delay == 0 {
			return fmt.Errorf("%s: want a duration above 0s", f.Kind)
		}
	case KindNone, KindHang, KindHangAfter, KindReset, KindResetAfter, KindTruncate, KindMalformed, KindErrorEvent:
	default:
		return fmt.Errorf("unknown fault %q: want %s", clip(string(f.Kind)), faultSyntax)
	}
	return nil
}

// midAnswer reports whether the fault strikes once the answer has begun.
func (f Fault) midAnswer() bool {
	switch f.Kind {
	case KindHangAfter, KindResetAfter, KindTruncate, KindMalformed, KindErrorEvent, KindSilence:
		return true
	}
	return false
}

// String returns the form that [ParseFault] reads. The zero value is empty.
func (f Fault) String() string {
	s := f.kindString()
	if f.Latency > 0 {
		s = join(s, "latency="+f.Latency.String())
	}
	if f.Share > 0 {
		s = join(s, "share="+strconv.FormatFloat(f.Share, 'g', -1, 64))
	}
	return s
}

func (f Fault) kindString() string {
	kind := string(f.Kind)
	switch f.Kind {
	case KindStatus:
		s := kind + "=" + strconv.Itoa(f.Status)
		if f.RetryAfter != "" {
			s = join(s, "retry_after="+f.RetryAfter)
		}
		return s
	case KindHangAfter, KindResetAfter, KindMalformed, KindErrorEvent:
		return kind + "=" + strconv.Itoa(f.After)
	case KindTruncate:
		s := kind + "=" + strconv.Itoa(f.After)
		if f.WrongLength {
			s = join(s, "length=wrong")
		}
		return s
	case KindDrip:
		return kind + "=" + f.Delay.String()
	case KindSilence:
		return kind + "=" + f.Delay.String() + ";after=" + strconv.Itoa(f.After)
	}
	return kind
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ";" + b
}

// faultSyntax is what an error tells someone who mistyped a fault.
const faultSyntax = "status=500, status=429;retry_after=7, hang, hang_after=3, reset, reset_after=3, truncate=3, " +
	"truncate=half;length=wrong, drip=10ms, malformed=3, error_event=3, silence=20s;after=3 or latency=2s"

// ParseFault reads a fault: one kind and its parts, joined by semicolons, in
// any order. latency=DUR and share=S (above 0, at most 1) go with every kind:
//
//	status=500
//	status=429;retry_after=7
//	hang                          before the headers
//	hang_after=3                  after three chunks
//	reset · reset_after=3         a TCP reset
//	truncate=3                    a clean end after three chunks
//	truncate=half                 half of a body that is not streamed, cleanly
//	truncate=half;length=wrong    the same with the Content-Length of the whole
//	drip=10ms                     one byte every 10 ms
//	malformed=3                   invalid chunked framing after three chunks
//	error_event=3                 data: {"error":…} after three chunks
//	silence=20s;after=3           a pause mid-stream
//	latency=2s                    added before the first byte
//
// An error says which part is wrong and what would be right.
func ParseFault(s string) (Fault, error) {
	var f Fault
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return Fault{}, fmt.Errorf("fault %q: %q is given twice", clip(s), clip(name))
		}
		seen[name] = true
		if err := f.setPart(name, value); err != nil {
			return Fault{}, fmt.Errorf("fault %q: %w", clip(s), err)
		}
	}
	if err := errors.Join(f.checkParts(seen), f.Validate()); err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", clip(s), err)
	}
	return f, nil
}

func (f *Fault) setPart(name, value string) error {
	switch name {
	case "retry_after":
		return f.setRetryAfter(value)
	case "length":
		f.WrongLength = value == "wrong"
		if !f.WrongLength {
			return fmt.Errorf("length: %q, want wrong", clip(value))
		}
		return nil
	case "after":
		return f.setAfter(value)
	case "latency":
		d, err := parseDuration(value, MaxFaultDelay)
		f.Latency = d
		return err
	case "share":
		return f.setShare(value)
	}
	return f.setKind(Kind(name), value)
}

func (f *Fault) setKind(kind Kind, value string) error {
	if f.Kind != KindNone {
		return fmt.Errorf("%s and %s cannot be combined", f.Kind, clip(string(kind)))
	}
	f.Kind = kind
	switch kind {
	case KindStatus:
		status, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("status: %q, want 400 to 599", clip(value))
		}
		f.Status = status
		return nil
	case KindHang, KindReset:
		if value != "" {
			return fmt.Errorf("%s takes no value; did you mean %s_after=%s?", kind, kind, clip(value))
		}
		return nil
	case KindHangAfter, KindResetAfter, KindTruncate, KindMalformed, KindErrorEvent:
		return f.setAfter(value)
	case KindDrip, KindSilence:
		d, err := parseDuration(value, MaxFaultDelay)
		f.Delay = d
		return err
	}
	return fmt.Errorf("unknown part %q: want %s", clip(string(kind)), faultSyntax)
}

func (f *Fault) setAfter(value string) error {
	if value == "" || (f.Kind == KindTruncate && value == "half") {
		f.After = 1
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxAfter {
		return fmt.Errorf("%q: want a number of chunks from 0 to %d", clip(value), maxAfter)
	}
	f.After = n
	return nil
}

func (f *Fault) setShare(value string) error {
	share, err := parseNumber(value, 0, 1)
	if err != nil || share == 0 {
		return fmt.Errorf("share: %q, want above 0 and at most 1", clip(value))
	}
	f.Share = share
	return nil
}

// setRetryAfter takes what a header can carry, right or wrong.
func (f *Fault) setRetryAfter(value string) error {
	if value == "" || len(value) > 64 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("retry_after: %q, want seconds or a date", clip(value))
	}
	f.RetryAfter = value
	return nil
}

func (f *Fault) checkParts(seen map[string]bool) error {
	for part, kind := range map[string]Kind{"retry_after": KindStatus, "length": KindTruncate, "after": KindSilence} {
		if seen[part] && f.Kind != kind {
			return fmt.Errorf("%s goes only with %s", part, kind)
		}
	}
	return nil
}

// applyFault breaks an answer that has begun. Nil means that it goes on.
func (c *call) applyFault(out *answerWriter) error {
	if err := out.flush(); err != nil {
		return err
	}
	switch c.fault.Kind {
	case KindHangAfter:
		return c.hang()
	case KindResetAfter:
		return c.resetConn()
	case KindTruncate:
		c.finish(faulted)
		return errFaultInjected
	case KindMalformed:
		return c.corruptFraming()
	case KindErrorEvent:
		return c.sendErrorEvent(out)
	case KindSilence:
		return c.sleep(c.fault.Delay)
	}
	return nil
}

// hang keeps the call, and its slot, until the client or the stub gives up. At
// the bound the connection is broken.
func (c *call) hang() error {
	if err := c.sleep(MaxFaultDelay); err != nil {
		return err
	}
	c.finish(faulted)
	c.abortConn = true
	return errFaultInjected
}

// failWithStatus answers as an overloaded or broken server does, before any
// work: it takes no slot.
func (c *call) failWithStatus() error {
	if err := c.sleep(c.fault.Latency); err != nil {
		return err
	}
	c.finish(faulted)
	if c.fault.RetryAfter != "" {
		c.w.Header().Set("Retry-After", c.fault.RetryAfter)
	}
	c.writeError(faultError(c.fault.Status))
	return errFaultInjected
}

func (c *call) sendErrorEvent(out *answerWriter) error {
	c.finish(faulted)
	data := sseFrame("", faultError(http.StatusInternalServerError).body())
	if err := out.write(data); err != nil {
		return err
	}
	if out.compressor != nil {
		_ = out.compressor.Close() // the call is over either way
	}
	return errFaultInjected
}

// resetConn closes the connection with a TCP reset where there is TCP.
func (c *call) resetConn() error {
	c.finish(faulted)
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.abortConn = true // no connection of its own: abort the call
		return errFaultInjected
	}
	conn = innerConn(conn)
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // if it fails, the close is an ordinary one
	}
	_ = conn.Close()
	return errFaultInjected
}

// corruptFraming writes what is no chunk where a chunk must come.
func (c *call) corruptFraming() error {
	c.finish(faulted)
	conn, buffered, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.abortConn = true
		return errFaultInjected
	}
	_, _ = buffered.WriteString("zz\r\nthis is no chunk\r\n")
	_ = buffered.Flush() // a client that left has lost nothing
	_ = conn.Close()
	return errFaultInjected
}

// innerConn looks below TLS, which knows no linger and says goodbye on closing.
func innerConn(conn net.Conn) net.Conn {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return inner.NetConn()
	}
	return conn
}
