package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"headgate/proxy/admission"
)

// Observer receives events of tasks. Its methods are called on the task's path:
// they must be quick and must not block.
type Observer interface {
	// OnGateEvent is called when a call of the gate says something about the gate's
	// own health; before OnEnd, which may be a long time later.
	OnGateEvent(GateEvent)
	// OnArrival is called once a task's pool is known, or with Unrouted when the
	// task ends before that.
	OnArrival(pool string)
	// OnUpstreamRetry is called when a request is sent to a pool's upstream again because
	// its connection had ended.
	OnUpstreamRetry(pool string)
	// OnEnd is called exactly once a task, after OnArrival.
	OnEnd(Observation)
}

// GateEvent describes the gate's health at one call.
type GateEvent struct {
	Pool         string
	FastPath     bool             // the task found a permit free
	Took         time.Duration    // of the call, if FastPath: waiting for the gate's lock counts
	Panics       int              // caught in the call
	FalseRefusal admission.Reason // of a refusal to which the gate's monitor objects
}

// Observation describes one task that has ended.
type Observation struct {
	Pool      string
	TaskID    string // UUIDv7
	RequestID string // the client's X-Request-Id, or one made here
	TraceID   string // from the client's traceparent, or made here
	Client    string // name of the client key, if keys are configured
	Class     admission.Class
	Endpoint  string
	Status    int // sent to the client; 0 if none was

	Outcome        admission.Outcome
	Reason         admission.Reason // why it was refused
	ObservedReason admission.Reason // why mode enforce would have refused it
	Retry          bool             // the client announced it as a retry
	Panicked       bool             // a panic of the proxy ended it
	DrillTraffic   bool             // sent by a drill only: it does not count for the SLO
	Err            error            // the error for the log; never holds a secret

	Arrived    time.Time
	Granted    bool          // it held a permit
	Queued     time.Duration // from the offer to the grant, or to leaving the queue
	Service    time.Duration // from the grant to the end; 0 unless Granted
	FirstByte  time.Duration // from arrival to the first byte of the upstream's body; 0 if none came
	Turnaround time.Duration // from arrival to the end
	Gate       time.Duration // spent in the gate's own decisions
}

// attrs returns the log attributes of a task.
func (o *Observation) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("task", o.TaskID),
		slog.String("request", o.RequestID),
		slog.String("trace", o.TraceID),
		slog.String("pool", o.Pool),
		slog.String("endpoint", o.Endpoint),
		slog.String("outcome", o.Outcome.String()),
		slog.Int("status", o.Status),
		slog.Duration("queued", o.Queued),
		slog.Duration("turnaround", o.Turnaround),
	}
	if o.Client != "" {
		attrs = append(attrs, slog.String("client", o.Client))
	}
	if o.Reason != admission.ReasonNone {
		attrs = append(attrs, slog.String("reason", o.Reason.String()))
	}
	if o.Err != nil {
		attrs = append(attrs, slog.String("error", o.Err.Error()))
	}
	return attrs
}

type drillTrafficKey struct{}

// WithDrillTraffic returns a context for a request of a drill: its task is counted
// like any other, but not for the SLO.
func WithDrillTraffic(ctx context.Context) context.Context {
	return context.WithValue(ctx, drillTrafficKey{}, true)
}

func isDrillTraffic(ctx context.Context) bool { return ctx.Value(drillTrafficKey{}) != nil }

// classifyForSLO reports whether a task counts for its pool's SLO and whether it
// was bad. Tasks that the gate or the client called off do not count, but a client
// that left after the SLO had passed counts as a late task.
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

// scrub removes possible secrets from an error of the transport: the URL, whose
// query comes from the client, and what net/http quotes, which comes from an
// upstream that may echo its request.
func scrub(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	if before, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return errors.New(before + "...")
	}
	return err
}
