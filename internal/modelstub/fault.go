package modelstub

import (
	"bufio"
	"fmt"
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

// Fault is one failure. The zero value does nothing.
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
}

// kindValue is what the value after a kind's name sets.
type kindValue int

const (
	noValue     kindValue = iota
	statusValue           // Fault.Status
	afterValue            // Fault.After
	delayValue            // Fault.Delay
)

// kinds has the value of each kind, and whether it strikes once the answer has begun.
var kinds = map[Kind]struct {
	value     kindValue
	midAnswer bool
}{
	KindNone:       {},
	KindStatus:     {value: statusValue},
	KindHang:       {},
	KindHangAfter:  {afterValue, true},
	KindReset:      {},
	KindResetAfter: {afterValue, true},
	KindTruncate:   {afterValue, true},
	KindDrip:       {value: delayValue},
	KindMalformed:  {afterValue, true},
	KindErrorEvent: {afterValue, true},
	KindSilence:    {delayValue, true},
}

// midAnswer reports whether the fault strikes once the answer has begun.
func (f Fault) midAnswer() bool { return kinds[f.Kind].midAnswer }

// faultSyntax is the syntax in an error about a mistyped fault.
const faultSyntax = "status=500, status=429;retry_after=7, hang, hang_after=3, reset, reset_after=3, truncate=3, " +
	"truncate=half;length=wrong, drip=10ms, malformed=3, error_event=3, silence=20s;after=3 or latency=2s"

// ParseFault reads a fault: one kind and its parts, joined by semicolons, in
// any order. latency=DUR goes with every kind:
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
// An error names the invalid part and the valid values.
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
	for part, kind := range map[string]Kind{"retry_after": KindStatus, "length": KindTruncate, "after": KindSilence} {
		if seen[part] && f.Kind != kind {
			return Fault{}, fmt.Errorf("fault %q: %s goes only with %s", clip(s), part, kind)
		}
	}
	return f, nil
}

func (f *Fault) setPart(name, value string) (err error) {
	switch name {
	case "retry_after":
		return f.setRetryAfter(value)
	case "length":
		if f.WrongLength = value == "wrong"; !f.WrongLength {
			return fmt.Errorf("length: %q, want wrong", clip(value))
		}
	case "after":
		return f.setAfter(value)
	case "latency":
		f.Latency, err = parseDuration(value, MaxFaultDelay)
	default:
		return f.setKind(Kind(name), value)
	}
	return err
}

func (f *Fault) setKind(kind Kind, value string) (err error) {
	if f.Kind != KindNone {
		return fmt.Errorf("%s and %s cannot be combined", f.Kind, clip(string(kind)))
	}
	spec, known := kinds[kind]
	if !known || kind == KindNone {
		return fmt.Errorf("unknown part %q: want %s", clip(string(kind)), faultSyntax)
	}
	f.Kind = kind
	switch spec.value {
	case statusValue:
		if f.Status, err = strconv.Atoi(value); err != nil || f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("status: %q, want 400 to 599", clip(value))
		}
	case afterValue:
		return f.setAfter(value)
	case delayValue:
		if f.Delay, err = parseDuration(value, MaxFaultDelay); err == nil && f.Delay == 0 {
			return fmt.Errorf("%s: want a duration above 0s", kind)
		}
	default:
		if value != "" {
			return fmt.Errorf("%s takes no value; did you mean %s_after=%s?", kind, kind, clip(value))
		}
	}
	return err
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

// setRetryAfter accepts any valid header value, also a wrong Retry-After.
func (f *Fault) setRetryAfter(value string) error {
	if value == "" || len(value) > 64 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("retry_after: %q, want seconds or a date", clip(value))
	}
	f.RetryAfter = value
	return nil
}

// applyFault breaks an answer that has begun. Nil means that the answer continues.
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

// hang keeps the call and its slot until the client leaves or the stub is closed.
// After MaxFaultDelay the connection is broken.
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
	return c.breakConn(func(conn net.Conn, _ *bufio.ReadWriter) {
		conn = innerConn(conn)
		if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
			_ = tcp.SetLinger(0) // if it fails, the close is an ordinary one
		}
		_ = conn.Close()
	})
}

// corruptFraming writes invalid data in place of a chunk.
func (c *call) corruptFraming() error {
	return c.breakConn(func(_ net.Conn, out *bufio.ReadWriter) {
		_, _ = out.WriteString("zz\r\nthis is no chunk\r\n")
		_ = out.Flush() // a client that left has lost nothing
	})
}

// breakConn takes the connection over and closes it after f. Without a connection of
// its own the call is aborted.
func (c *call) breakConn(f func(net.Conn, *bufio.ReadWriter)) error {
	c.finish(faulted)
	conn, buffered, err := http.NewResponseController(c.w).Hijack()
	if c.abortConn = err != nil; !c.abortConn {
		f(conn, buffered)
		_ = conn.Close()
	}
	return errFaultInjected
}

// innerConn returns the connection below TLS, which has no linger option and sends a
// closing message.
func innerConn(conn net.Conn) net.Conn {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return inner.NetConn()
	}
	return conn
}
