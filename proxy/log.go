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

	"headgate/proxy/admission"
)

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
