package fault

import "time"

// Kind is a way to go wrong.
type Kind string

// The kinds of faults.
const (
	Latency   Kind = "latency"   // the call goes upstream late
	Status    Kind = "status"    // answered with an error status, without going upstream
	Hang      Kind = "hang"      // no answer, until the fault is cleared or the caller leaves
	Reset     Kind = "reset"     // the connection breaks before the answer
	Truncate  Kind = "truncate"  // the answer breaks off half way
	Drip      Kind = "drip"      // the answer comes slowly, in small pieces
	Malformed Kind = "malformed" // a piece of the answer is garbage
	Refuse    Kind = "refuse"    // no connection
)

// Kinds returns every kind, in a fixed order.
func Kinds() []Kind {
	return []Kind{Latency, Status, Hang, Reset, Truncate, Drip, Malformed, Refuse}
}

// Fault is what befalls a share of the calls.
type Fault struct {
	Kind   Kind          `json:"kind"`
	Share  float64       `json:"share"`            // of the calls, 0 to 1; 0 has no effect at all
	Delay  time.Duration `json:"delay,omitempty"`  // of Latency, and between the pieces of Drip
	Jitter time.Duration `json:"jitter,omitempty"` // Delay varies by up to this either way, evenly
	Code   int           `json:"code,omitempty"`   // of Status, 400 to 599
	After  int           `json:"after,omitempty"`  // bytes of the answer that pass before Truncate, Drip and Malformed
}
