package admission

import (
	"fmt"
	"time"
)

// Task is what the gate needs to know of one unit of work.
type Task struct {
	Class      Class
	Deadline   time.Time // from which on the task is useless; zero: it has none
	JitterSeed uint64    // spreads Retry-After, so that callers refused together do not return together
	Waiter     Waiter    // called when the wait ends; only a task that may have to wait needs one
}

func (t Task) pastDeadline(now time.Time) bool {
	return !t.Deadline.IsZero() && !now.Before(t.Deadline)
}

func (t Task) refusal(v Verdict) Refusal {
	return Refusal{Reason: v.Reason, RetryAfter: retryAfter(v.Wait, t.JitterSeed)}
}

// Waiter is notified when the wait of a queued task ends.
type Waiter interface {
	// Done is called exactly once for a task that was queued, unless Cancel or
	// Expire removed it first. The zero Refusal means that the task now holds a
	// permit. Done is called outside the gate's lock and must not block.
	Done(Refusal)
}

// Refusal says why a task was refused and when its caller may retry. The zero
// Refusal means that it was not refused.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration // whole seconds, 1 to 59
}

// Decision is the gate's answer to an offer. Exactly one of three holds: the task
// was refused (Refusal has a reason), it runs (Waiting is false), or it waits.
type Decision struct {
	Refusal
	Ticket         *Ticket // nil when refused
	Waiting        bool    // true: wait for Waiter.Done
	ObservedReason Reason  // in mode observe, the reason for which enforce would have refused
	// Violation is the Monitor's objection to the refusal, as text for the log;
	// empty if it has none.
	Violation string
}

// Sample says whether the time under a permit counts as a service time.
type Sample uint8

// The two kinds of samples.
const (
	Served  Sample = iota // the upstream did the work: the time updates the service estimate
	Dropped               // it did not do all of it: the estimate stays
)

type state uint8

const (
	waiting state = iota
	running
	ended
)

// Ticket stands for one admitted task. The gate that made it owns it; the task's
// owner may call its methods once the wait has ended.
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

// Slot returns the Monitor's slot of the ticket.
func (t *Ticket) Slot() *Slot { return &t.slot }

// Mode says how the policy's verdicts are used.
type Mode uint8

// The modes of a pool.
const (
	Enforce     Mode = iota // refusals are real
	Observe                 // refusals are only counted
	PassThrough             // the policy is not asked; queue and permits work as usual
)

var modeNames = [...]string{"enforce", "observe", "passthrough"}

// Modes returns every mode, in a fixed order.
func Modes() []Mode { return enumValues[Mode](len(modeNames)) }

// String returns the name that settings, metrics and the database use.
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

// Class separates tasks whose queue ages must not be mixed: the age of batch work
// says nothing about the wait of the next interactive task.
type Class uint8

// The classes of tasks.
const (
	Interactive Class = iota // a person waits for the answer
	Batch                    // no person waits
	numClasses
)

var classNames = [...]string{"interactive", "batch"}

// Classes returns every class, in a fixed order.
func Classes() []Class { return enumValues[Class](len(classNames)) }

// String returns the name that headers and settings use.
func (c Class) String() string { return enumName(classNames[:], c) }

// Reason says why a task was refused. The zero Reason means that it was not.
type Reason uint8

// The reasons for which a task is refused.
const (
	ReasonNone               Reason = iota
	ReasonQueueAge                  // the oldest queued task is too old
	ReasonQueueDepth                // too many tasks are queued
	ReasonDeadlineUnmeetable        // it could be admitted, but would not end in time
	ReasonDeadlinePassed            // its deadline passed before it reached the upstream
	ReasonClientQuota               // its client has used up its quota
	ReasonMemory                    // no memory left for bodies or waiting tasks
	ReasonDraining                  // the process is shutting down
)

var reasonNames = [...]string{
	"", "queue_age", "queue_depth", "deadline_unmeetable", "deadline_passed",
	"client_quota", "memory", "draining",
}

// Reasons returns every reason but ReasonNone, in a fixed order.
func Reasons() []Reason { return enumValues[Reason](len(reasonNames))[1:] }

// String returns the name that responses, metrics and the database use.
func (r Reason) String() string { return enumName(reasonNames[:], r) }

// Outcome is how a task ended. Every task has exactly one, and the same names
// serve metrics, logs, responses and the database, so that outcomes add up to
// arrivals.
type Outcome uint8

// The outcomes of tasks.
const (
	Completed       Outcome = iota // the upstream's whole answer was relayed, 4xx other than 429 included
	Refused                        // refused before it was queued
	DeadlinePassed                 // removed before it reached the upstream because its deadline had passed
	ClientGone                     // the client left first
	UpstreamError                  // the upstream was unreachable, broke off before its answer, or answered 5xx
	UpstreamRefused                // the upstream answered 429
	UpstreamTimeout                // the upstream went silent
	Truncated                      // the upstream's answer ended without its proper end
	Cancelled                      // a durable task was cancelled on request
	Drained                        // the process shut down first
	Invalid                        // the request cannot be forwarded (our own 4xx)
)

var outcomeNames = [...]string{
	"completed", "refused", "deadline_passed", "client_gone", "upstream_error", "upstream_refused",
	"upstream_timeout", "truncated", "cancelled", "drained", "invalid",
}

// Outcomes returns every outcome, in a fixed order.
func Outcomes() []Outcome { return enumValues[Outcome](len(outcomeNames)) }

// String returns the name that responses, metrics and the database use.
func (o Outcome) String() string { return enumName(outcomeNames[:], o) }

// Outcome returns the outcome of a task that was refused for r.
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

func enumValues[T ~uint8](n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = T(i)
	}
	return all
}
