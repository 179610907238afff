package modelstub

import (
	"fmt"
	"math"
	"strconv"
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
