package admission

import (
	"fmt"
	"time"
)

// Threshold is the article's rule: refuse when the oldest queued task is older
// than MaxQueueAge, or when all permits are out and more than
// DepthMultiple × workers tasks are queued.
//
// It looks at a task only when it comes in. What was let in goes on ageing, so
// some admitted work is late when the mean service time is not well under the
// SLO; a task whose own deadline has passed leaves before it costs the
// upstream anything.
type Threshold struct {
	MaxQueueAge   time.Duration // above this age of the oldest queued task of the class, refuse
	DepthMultiple int           // above this many queued tasks per worker, refuse
}

// NewThreshold returns the policy, or says which of its numbers makes no sense.
func NewThreshold(maxQueueAge time.Duration, depthMultiple int) (Threshold, error) {
	if maxQueueAge <= 0 {
		return Threshold{}, &FieldError{Field: "max_queue_age", Message: fmt.Sprintf("must be above 0, is %s", maxQueueAge)}
	}
	if depthMultiple < 1 {
		return Threshold{}, &FieldError{Field: "depth_multiple", Message: fmt.Sprintf("must be at least 1, is %d", depthMultiple)}
	}
	return Threshold{MaxQueueAge: maxQueueAge, DepthMultiple: depthMultiple}, nil
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

// Dispatch turns away what is too late already.
func (p Threshold) Dispatch(v View, t Task) Reason {
	if t.pastDeadline(v.Now) {
		return ReasonDeadlinePassed
	}
	return ReasonNone
}

// untilBelowMaxAge projects when the oldest waiting task of the class will be no
// older than MaxQueueAge: tasks leave one by one at the observed rate while the
// others go on ageing. It looks no further than Retry-After can tell.
func (p Threshold) untilBelowMaxAge(v View, c Class) time.Duration {
	var wait time.Duration // until those of the class that are too old have left
	for place, age := range v.waitingOf(c) {
		if wait >= maxProjection || age+wait <= p.MaxQueueAge {
			break
		}
		wait = v.DrainTime(place)
	}
	return wait
}
