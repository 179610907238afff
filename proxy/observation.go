package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"headgate/proxy/admission"
)

// Observer hears of tasks. Its methods are called on the task's path: they must
// be quick and must not block.
type Observer interface {
	// Decided is called when the gate has done something for a task that says how
	// the gate itself fares; before Ended, which may be a long time later.
	OnGateEvent(GateEvent)
	// Arrived is called once a task's pool is known, or with Unrouted when the
	// task ends before that.
	OnArrival(pool string)
	// Ended is called exactly once a task, after Arrived.
	OnEnd(Observation)
}

// GateEvent says how a gate fared with a task.
type GateEvent struct {
	Pool         string
	FastPath     bool             // the task found a permit free
	Took         time.Duration    // of a call on the gate, when Free: waiting for the gate's lock counts
	Panics       int              // that were caught
	FalseRefusal admission.Reason // for which it refused though it should not have
}

// Observation is what there is to know of one task that has ended.
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
	Reason         admission.Reason // why it was turned away
	ObservedReason admission.Reason // in mode observe, why it would have been
	Retry          bool             // the client announced it as a retry
	Panicked       bool             // a panic of our own ended it
	DrillTraffic   bool             // it was only a rehearsal, and counts for no SLO
	Err            error            // what went wrong, for the log; never holds a secret

	Arrived    time.Time
	Granted    bool          // it held a permit
	Queued     time.Duration // from the offer to the grant, or to leaving the queue
	Service    time.Duration // from the grant to the end; 0 unless Granted
	FirstByte  time.Duration // from arrival to the first byte of the upstream's body; 0 if none came
	Turnaround time.Duration // from arrival to the end
	Gate       time.Duration // spent in the gate's own decisions
}

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

// attrs returns what the log says of a task.
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

// recordPanic turns a panic of our own into an outcome and a log line.
func (t *task) recordPanic(value any) {
	t.obs.Outcome = admission.UpstreamError
	t.obs.Panicked = true
	if !t.headersSent {
		t.obs.Status = http.StatusInternalServerError
	}
	t.obs.Err = fmt.Errorf("panic: %v", value)
	t.p.log.LogAttrs(context.Background(), slog.LevelError, "panic while serving a task",
		append(t.obs.attrs(), slog.String("stack", string(debug.Stack())))...)
}

// scrub takes what may hold a secret out of an error from the transport: the
// URL, whose query comes from the client, and what net/http quotes, which comes
// from an upstream that may echo its request.
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
