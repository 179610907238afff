package proxy

import (
	"time"

	"headgate/proxy/admission"
)

// Observer hears of tasks. Its methods are called on the task's path: they must
// be quick and must not block.
type Observer interface {
	// Decided is called when the gate has done something for a task that says how
	// the gate itself fares; before Ended, which may be a long time later.
	OnGateEvent(GateEvent)
	// Arrived is called once a task's pool is known, or with Unrouted when the
	// task ends before that.
	OnArrival(pool string)
	// Ended is called exactly once a task, after Arrived.
	OnEnd(Observation)
}

// GateEvent says how a gate fared with a task.
type GateEvent struct {
	Pool         string
	FastPath     bool             // the task found a permit free
	Took         time.Duration    // of a call on the gate, when Free: waiting for the gate's lock counts
	Panics       int              // that were caught
	FalseRefusal admission.Reason // for which it refused though it should not have
}

// Observation is what there is to know of one task that has ended.
type Observation struct {
	Pool      string
	TaskID    string // UUIDv7
	RequestID string // the client's X-Request-Id, or one made here
	TraceID   string // from the client's traceparent, or made here
	Client    string // name of the client key, if keys are configured
	Class     admission.Class
	Endpoint  string
	Status    int // sent to the client; 0 if none was

	Outcome        admission.Outcome
	Reason         admission.Reason // why it was turned away
	ObservedReason admission.Reason // in mode observe, why it would have been
	Retry          bool             // the client announced it as a retry
	Panicked       bool             // a panic of our own ended it
	DrillTraffic   bool             // it was only a rehearsal, and counts for no SLO
	Err            error            // what went wrong, for the log; never holds a secret

	Arrived    time.Time
	Granted    bool          // it held a permit
	Queued     time.Duration // from the offer to the grant, or to leaving the queue
	Service    time.Duration // from the grant to the end; 0 unless Granted
	FirstByte  time.Duration // from arrival to the first byte of the upstream's body; 0 if none came
	Turnaround time.Duration // from arrival to the end
	Gate       time.Duration // spent in the gate's own decisions
}
