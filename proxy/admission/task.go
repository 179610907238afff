package admission

import (
	"fmt"
	"time"
)

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

// Mode says what the policy's decision counts for.
type Mode uint8

// The modes of a pool.
const (
	Enforce     Mode = iota // refusals are real
	Observe                 // refusals are only counted
	PassThrough             // the policy is not asked; queue and permits work on unchanged
)

var modeNames = [...]string{"enforce", "observe", "passthrough"}

// Modes returns every mode, in a fixed order.
func Modes() []Mode { return []Mode{Enforce, Observe, PassThrough} }

// String returns the word that settings, metrics and the record use.
func (m Mode) String() string { return enumName(modeNames[:], m) }

// MarshalText returns what String does.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText accepts what String returns.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMode(string(text))
	return err
}

// ParseMode returns the mode of that name.
func ParseMode(s string) (Mode, error) {
	for _, m := range Modes() {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown mode %q: must be enforce, observe or passthrough", s)
}

// Class separates tasks whose queue ages must not be mixed: a batch of old work
// says nothing about the wait of the next interactive task.
type Class uint8

// The classes of tasks.
const (
	Interactive Class = iota // somebody waits for the answer
	Batch                    // nobody does
	numClasses
)

var classNames = [...]string{"interactive", "batch"}

// Classes returns every class, in a fixed order.
func Classes() []Class { return []Class{Interactive, Batch} }

// String returns the word that headers and settings use.
func (c Class) String() string { return enumName(classNames[:], c) }

// Reason says why a task was turned away. The zero Reason means that it was not.
type Reason uint8

// The reasons for which a task is turned away.
const (
	ReasonNone               Reason = iota
	ReasonQueueAge                  // the oldest queued task is too old
	ReasonQueueDepth                // too many tasks are queued
	ReasonDeadlineUnmeetable        // it would come in, but not end in time
	ReasonDeadlinePassed            // its deadline passed before it reached the upstream
	ReasonClientQuota               // its client has had its share
	ReasonMemory                    // no memory left for bodies or waiting tasks
	ReasonDraining                  // the process is going down
)

var reasonNames = [...]string{
	"", "queue_age", "queue_depth", "deadline_unmeetable", "deadline_passed",
	"client_quota", "memory", "draining",
}

// Reasons returns every reason but ReasonNone, in a fixed order.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonNames)-1)
	for r := ReasonNone + 1; int(r) < len(reasonNames); r++ {
		all = append(all, r)
	}
	return all
}

// String returns the word that responses, metrics and the record use.
func (r Reason) String() string { return enumName(reasonNames[:], r) }

// Outcome is how a task ended. Every task has exactly one, and the same words
// serve metrics, logs, responses and the record, so that outcomes add up to
// arrivals.
type Outcome uint8

// The outcomes of tasks.
const (
	Completed       Outcome = iota // the upstream's whole answer was passed on, an error 4xx other than 429 included
	Refused                        // turned away before it was queued
	DeadlinePassed                 // left before it reached the upstream because its deadline had passed
	ClientGone                     // the client went away first
	UpstreamError                  // the upstream could not be reached, broke off before its answer, or answered 5xx
	UpstreamRefused                // the upstream answered 429
	UpstreamTimeout                // the upstream went silent
	Truncated                      // the upstream's answer ended without its proper end
	Cancelled                      // a durable task was cancelled on request
	Drained                        // the process went down first
	Invalid                        // the request was not one that can be forwarded (our own 4xx)
)

var outcomeNames = [...]string{
	"completed", "refused", "deadline_passed", "client_gone", "upstream_error", "upstream_refused",
	"upstream_timeout", "truncated", "cancelled", "drained", "invalid",
}

// Outcomes returns every outcome, in a fixed order.
func Outcomes() []Outcome {
	all := make([]Outcome, len(outcomeNames))
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// String returns the word that responses, metrics and the record use.
func (o Outcome) String() string { return enumName(outcomeNames[:], o) }

// Outcome returns the outcome of a task that was turned away for r.
func (r Reason) Outcome() Outcome {
	switch r {
	case ReasonDeadlinePassed:
		return DeadlinePassed
	case ReasonDraining:
		return Drained
	default:
		return Refused
	}
}

func enumName[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", uint8(v))
}
