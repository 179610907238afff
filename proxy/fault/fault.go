package fault

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Bounds of a fault.
const (
	MaxDelay      = 10 * time.Minute
	MaxAfterBytes = 1 << 30 // bytes
)

// Kind is a failure mode.
type Kind string

// The kinds of faults.
const (
	Latency   Kind = "latency"   // the call goes upstream late
	Status    Kind = "status"    // answered with an error status, without going upstream
	Hang      Kind = "hang"      // no answer, until the fault is cleared or the caller leaves
	Reset     Kind = "reset"     // the connection breaks before the answer
	Truncate  Kind = "truncate"  // the answer ends half-way
	Drip      Kind = "drip"      // the answer comes slowly, in small pieces
	Malformed Kind = "malformed" // a piece of the answer is garbage
	Refuse    Kind = "refuse"    // no connection
)

// Kinds returns every kind, in a fixed order.
func Kinds() []Kind {
	return []Kind{Latency, Status, Hang, Reset, Truncate, Drip, Malformed, Refuse}
}

// Fault is a failure of a share of the calls.
type Fault struct {
	Kind   Kind          `json:"kind"`
	Share  float64       `json:"share"`            // of the calls, 0 to 1; 0 has no effect at all
	Delay  time.Duration `json:"delay,omitempty"`  // of Latency, and between the pieces of Drip
	Jitter time.Duration `json:"jitter,omitempty"` // Delay varies by up to this either way, evenly
	Code   int           `json:"code,omitempty"`   // of Status, 400 to 599
	// AfterBytes is how many bytes of the answer pass before Truncate, Drip and
	// Malformed, at most half of an answer of announced length. 0: half of such an
	// answer, or the first few bytes of one of unknown length.
	AfterBytes int `json:"after,omitempty"`
}

// Validate returns an error that names an invalid field and its valid values.
func (f Fault) Validate() error {
	switch {
	case !slices.Contains(Kinds(), f.Kind):
		return fmt.Errorf("kind: unknown fault %.40q, want one of %v", string(f.Kind), Kinds())
	case math.IsNaN(f.Share) || f.Share < 0 || f.Share > 1:
		return fmt.Errorf("share: %v, want 0 to 1", f.Share)
	case f.Delay < 0 || f.Delay > MaxDelay:
		return fmt.Errorf("delay: %v, want 0s to %v", f.Delay, MaxDelay)
	case f.Jitter < 0 || f.Jitter > f.Delay:
		return fmt.Errorf("jitter: %v, want 0s to the delay, %v", f.Jitter, f.Delay)
	case f.AfterBytes < 0 || f.AfterBytes > MaxAfterBytes:
		return fmt.Errorf("after: %d, want 0 to %d bytes", f.AfterBytes, MaxAfterBytes)
	}
	return f.validateKind()
}

// validateKind checks for fields that the kind requires or does not use.
func (f Fault) validateKind() error {
	slow := f.Kind == Latency || f.Kind == Drip
	cuts := f.Kind == Truncate || f.Kind == Drip || f.Kind == Malformed
	switch {
	case slow && f.Delay == 0:
		return fmt.Errorf("delay: %s needs one above 0s", f.Kind)
	case !slow && f.Delay != 0:
		return fmt.Errorf("delay: does not apply to %s", f.Kind)
	case f.Kind == Status && (f.Code < 400 || f.Code > 599):
		return fmt.Errorf("code: %d, want 400 to 599", f.Code)
	case f.Kind != Status && f.Code != 0:
		return fmt.Errorf("code: does not apply to %s", f.Kind)
	case !cuts && f.AfterBytes != 0:
		return fmt.Errorf("after: does not apply to %s", f.Kind)
	}
	return nil
}
