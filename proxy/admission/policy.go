package admission

import (
	"fmt"
	"iter"
	"time"
)

// Policy decides which tasks are admitted. It is called under the gate's lock: it
// must be pure and quick, and must not keep the View. docs/adding-a-policy.md
// explains how to add one.
type Policy interface {
	// Name is the policy's name in the settings.
	Name() string
	// Admit decides about an arriving task.
	Admit(View, Task) Verdict
	// Dispatch decides once more about an admitted task, when it takes its permit
	// and again just before it goes upstream.
	Dispatch(View, Task) Reason
}

// Verdict is a policy's decision about an arriving task.
type Verdict struct {
	Reason Reason        // ReasonNone: admitted
	Wait   time.Duration // when refused: the projected time until it would be admitted
}

// View is a policy's view of the gate. At Admit the task in question is not
// counted yet; at Dispatch it is still counted, in Depth or InFlight.
type View struct {
	Now       time.Time
	Workers   int // N
	InFlight  int // permits out; above N only after N was lowered, at least N while the pool is paused
	Depth     int // tasks waiting
	Service   Service
	PauseLeft time.Duration // for how long no permit will be granted; 0: the pool is not paused

	queue *queue
}

// OldestAge returns the age of the oldest waiting task of a class, 0 if none waits.
func (v View) OldestAge(c Class) time.Duration { return v.queue.oldestAge(c, v.Now) }

// DrainTime returns how long it takes, at the observed service rate, until k of the
// waiting tasks have been granted a permit.
func (v View) DrainTime(k int) time.Duration {
	k += max(v.InFlight-v.Workers, 0)
	return seconds(v.PauseLeft.Seconds() + float64(max(k, 0))*v.Service.Mean.Seconds()/float64(v.Workers))
}

// waitingOf yields the waiting tasks of a class in service order: the position in
// the whole queue, counted from 1, and the age.
func (v View) waitingOf(c Class) iter.Seq2[int, time.Duration] {
	return func(yield func(int, time.Duration) bool) {
		position, last := 0, v.queue.lists[c].back
		for t := range v.queue.all() {
			position++
			if t.task.Class == c && !yield(position, v.Now.Sub(t.offered)) || t == last {
				return
			}
		}
	}
}

// None is the policy that admits every task.
type None struct{}

// Name returns "none".
func (None) Name() string { return "none" }

// Admit admits every task.
func (None) Admit(View, Task) Verdict { return Verdict{} }

// Dispatch dispatches every task, whatever its deadline.
func (None) Dispatch(View, Task) Reason { return ReasonNone }

// Threshold is the policy of that name: refuse when the oldest queued task is older
// than MaxQueueAge, or when all permits are out and more than
// DepthMultiple × workers tasks are queued.
//
// It applies to arriving tasks only. Admitted tasks go on ageing, so some of them
// are late when the mean service time is not well under the SLO; a task whose own
// deadline has passed is removed before it costs the upstream anything.
type Threshold struct {
	MaxQueueAge   time.Duration // above this age of the oldest queued task of the class, refuse
	DepthMultiple int           // above this many queued tasks per worker, refuse
}

// NewThreshold returns the policy, or a *FieldError for an invalid number.
func NewThreshold(maxQueueAge time.Duration, depthMultiple int) (Threshold, error) {
	if maxQueueAge <= 0 {
		return Threshold{}, &FieldError{"max_queue_age", fmt.Sprintf("must be above 0, is %s", maxQueueAge)}
	}
	if depthMultiple < 1 {
		return Threshold{}, &FieldError{"depth_multiple", fmt.Sprintf("must be at least 1, is %d", depthMultiple)}
	}
	return Threshold{MaxQueueAge: maxQueueAge, DepthMultiple: depthMultiple}, nil
}

// ParsePolicy returns the policy of a name: threshold with these limits, or none.
func ParsePolicy(name string, maxQueueAge time.Duration, depthMultiple int) (Policy, error) {
	switch name {
	case "threshold":
		return NewThreshold(maxQueueAge, depthMultiple)
	case "none":
		return None{}, nil
	default:
		return nil, fmt.Errorf("unknown policy %q", name)
	}
}

// Name returns "threshold".
func (Threshold) Name() string { return "threshold" }

// Admit applies the rule, age first.
func (p Threshold) Admit(v View, t Task) Verdict {
	if t.pastDeadline(v.Now) {
		return Verdict{ReasonDeadlinePassed, v.DrainTime(v.Depth)}
	}
	if v.OldestAge(t.Class) > p.MaxQueueAge {
		return Verdict{ReasonQueueAge, p.untilBelowMaxAge(v, t.Class)}
	}
	if excess := v.Depth - p.DepthMultiple*v.Workers; excess > 0 && v.InFlight >= v.Workers {
		return Verdict{ReasonQueueDepth, v.DrainTime(excess)}
	}
	return Verdict{}
}

// Dispatch refuses a task whose deadline has passed.
func (p Threshold) Dispatch(v View, t Task) Reason {
	if t.pastDeadline(v.Now) {
		return ReasonDeadlinePassed
	}
	return ReasonNone
}

// untilBelowMaxAge projects when the oldest waiting task of the class will be no
// older than MaxQueueAge: tasks leave one by one at the observed rate while the
// others go on ageing. It projects no further than Retry-After can express.
func (p Threshold) untilBelowMaxAge(v View, c Class) time.Duration {
	var wait time.Duration // until the tasks of the class that are too old have left
	for position, age := range v.waitingOf(c) {
		if wait >= maxProjection || age+wait <= p.MaxQueueAge {
			break
		}
		wait = v.DrainTime(position)
	}
	return wait
}
