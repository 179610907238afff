package proxy

import (
	"context"
	"time"

	"headgate/proxy/admission"
)

type drillTrafficKey struct{}

// WithDrillTraffic returns a context for a request that only a rehearsal sends: its task
// is counted like any other, but not for the SLO, which is about work.
func WithDrillTraffic(ctx context.Context) context.Context {
	return context.WithValue(ctx, drillTrafficKey{}, true)
}

func isDrillTraffic(ctx context.Context) bool { return ctx.Value(drillTrafficKey{}) != nil }

// classifyForSLO tells whether a task counts for its pool's SLO, and whether it was a
// bad one. What the gate or the client called off does not count; a client that
// left after the SLO had passed counts as a task that came too late.
func classifyForSLO(o *Observation, slo time.Duration) (counts, bad bool) {
	if o.DrillTraffic {
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
