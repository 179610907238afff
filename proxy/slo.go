package proxy

import (
	"context"
	"time"

	"headgate/proxy/admission"
)

type rehearsalKey struct{}

// Rehearsed returns a context for a request that only a rehearsal sends: its task
// is counted like any other, but not for the SLO, which is about work.
func Rehearsed(ctx context.Context) context.Context {
	return context.WithValue(ctx, rehearsalKey{}, true)
}

func isRehearsed(ctx context.Context) bool { return ctx.Value(rehearsalKey{}) != nil }

// account tells whether a task counts for its pool's SLO, and whether it was a
// bad one. What the gate or the client called off does not count; a client that
// left after the SLO had passed counts as a task that came too late.
func account(o *Observation, slo time.Duration) (counts, bad bool) {
	if o.Rehearsed {
		return false, false
	}
	late := o.Turnaround > slo
	switch o.Outcome {
	case admission.Refused, admission.Cancelled, admission.Drained, admission.Invalid:
		return false, false
	case admission.ClientGone:
		return late, late
	case admission.Completed:
		return true, late
	case admission.UpstreamRefused:
		return true, false
	default: // deadline_passed, upstream_error, upstream_timeout, truncated
		return true, true
	}
}
