package admission

import "fmt"

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
