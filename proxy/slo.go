package proxy

import (
	"time"

	"headgate/proxy/admit"
)

// account tells whether a task counts for its pool's SLO, and whether it was a
// bad one. What the gate or the client called off does not count; a client that
// left after the SLO had passed counts as a task that came too late.
func account(o *Observation, slo time.Duration) (counts, bad bool) {
	late := o.Turnaround > slo
	switch o.Outcome {
	case admit.Refused, admit.Cancelled, admit.Drained, admit.Invalid:
		return false, false
	case admit.ClientGone:
		return late, late
	case admit.Completed:
		return true, late
	case admit.UpstreamRefused:
		return true, false
	default: // deadline_passed, upstream_error, upstream_timeout, truncated
		return true, true
	}
}
