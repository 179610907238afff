package loadgen

import "time"

// Outcome is how an arrival ended. There is exactly one for each.
type Outcome string

// The outcomes.
const (
	OK        Outcome = "ok"        // 2xx and a whole response
	Refused   Outcome = "refused"   // 429, or 503 with a Headgate-Reason
	Failed    Outcome = "error"     // Result.Cause says why
	Truncated Outcome = "truncated" // 2xx, and then cut short or without its terminal event
	Dropped   Outcome = "dropped"   // never sent: the generator was at MaxOutstanding
	Cancelled Outcome = "cancelled" // the run was ended while it was outstanding
)

// outcomes in the order of reports.
var outcomes = [...]Outcome{OK, Refused, Failed, Truncated, Dropped, Cancelled}

// Cause says why an outcome is Failed.
type Cause string

// The causes.
const (
	Timeout    Cause = "timeout"   // no end within Config.Timeout
	Connect    Cause = "connect"   // no connection
	Transport  Cause = "transport" // no response headers, for any other reason
	BadStatus  Cause = "status"    // neither 2xx nor a refusal
	ErrorEvent Cause = "stream"    // the stream carried an error event
	Protocol   Cause = "protocol"  // not what was asked for: other content type, or compressed
)

// Result is what became of one arrival. Times are scenario time from the start.
type Result struct {
	Index     int           // of the arrival in its source, from 0
	Large     bool          // as in Arrival
	Intended  time.Duration // when it should have been sent; latency counts from here
	Sent      time.Duration // when the first attempt began; 0 when dropped
	FirstByte time.Duration // first byte of the last response's body; 0 without one
	End       time.Duration // last byte, or when the outcome was known

	Outcome     Outcome
	Cause       Cause  // when Failed
	ErrorDetail string // why there is no whole response, for people; without the address
	Status      int    // of the last response; 0 without one
	Bytes       int64  // of the last response's body

	Attempts     int // requests sent
	Refusals     int // refused responses among them
	NoReason     int // refused responses without Headgate-Reason
	NoRetryAfter int // refused responses without a valid Retry-After
	Reason       string
	RetryAfter   RetryAfter
	TaskID       string        // Headgate-Task-Id
	QueueWait    time.Duration // Headgate-Queue-Wait-Ms in scenario time; 0 without one
}

// RetryAfter is the header of a refusal. It is wall clock, whatever the speed:
// that is how a client takes it.
type RetryAfter struct {
	Raw   string        // as it came, cut at 128 bytes
	Delay time.Duration // from Retry-After-Ms if valid, else from Retry-After; 0 when not OK
	OK    bool          // Retry-After is a whole number from 1 to 60, the only form all clients honour
}

// Turnaround is from the intended arrival to the end.
func (r Result) Turnaround() time.Duration { return r.End - r.Intended }

// SendLag is how much later than intended the first attempt was sent.
func (r Result) SendLag() time.Duration { return max(r.Sent-r.Intended, 0) }

// admitted says whether the task was put to the other side and not refused, and
// the run saw its end.
func (r Result) admitted() bool {
	return r.Outcome == OK || r.Outcome == Failed || r.Outcome == Truncated
}
