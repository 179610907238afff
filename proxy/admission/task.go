package admission

import "time"

// Task is what the gate has to know of one unit of work.
type Task struct {
	Class      Class
	Deadline   time.Time // from which on it is of no use; the zero time means never too late
	JitterSeed uint64    // tells callers apart, so that refused ones do not come back together
	Waiter     Waiter    // hears how the wait ended; needed only if the task may have to wait
}

func (t Task) pastDeadline(now time.Time) bool {
	return !t.Deadline.IsZero() && !now.Before(t.Deadline)
}

// Waiter is whoever waits for a queued task.
type Waiter interface {
	// Settled is called exactly once for a task that was queued, unless Leave
	// or Expire took it out first. The zero Refusal means that it now holds a
	// permit. It is called outside the gate's lock and must not block.
	Done(Refusal)
}

// Refusal says why a task was turned away, and when its caller may come back.
// The zero Refusal means that it was not turned away.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration // whole seconds, 1 to 60
}

// Decision is the gate's answer to an offer. One of three things holds: it was
// refused (Refusal has a reason), it runs (Waiting is false), or it waits.
type Decision struct {
	Refusal
	Ticket         *Ticket // nil when refused
	Waiting        bool    // true: wait for Waiter.Done
	ObservedReason Reason  // what mode enforce would have said, in mode observe
	// Disputed is what the gate's Monitor has against the refusal, in words for
	// the log; empty if nothing.
	Violation string
}

// Sample says what a returned permit teaches.
type Sample uint8

// The two endings of a permit.
const (
	Served  Sample = iota // the upstream did the work: its time feeds the estimate of service
	Dropped               // it did not, or not all of it: nothing is learnt
)

type state uint8

const (
	waiting state = iota
	running
	ended
)

// Ticket stands for one admitted task. It is owned by the gate that made it;
// the methods may be called by the task's owner once the wait has ended.
type Ticket struct {
	task       Task
	seq        uint64
	offered    time.Time
	granted    time.Time
	state      state
	refusal    Refusal
	prev, next *Ticket
	slot       Slot
}

// Class returns the class of the task.
func (t *Ticket) Class() Class { return t.task.Class }

// Slot returns the watcher's place on the ticket.
func (t *Ticket) Slot() *Slot { return &t.slot }

// Queued returns how long the task waited for its permit; 0 if it has none yet.
func (t *Ticket) Queued() time.Duration {
	if t.granted.IsZero() {
		return 0
	}
	return t.granted.Sub(t.offered)
}
