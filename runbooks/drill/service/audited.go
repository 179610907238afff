package service

import (
	"context"
	"errors"
	"strconv"
	"time"

	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

// Audited is a Service whose requests go into the audit, the refused ones too; dry runs do not.
type Audited struct {
	*Service
	// Append adds an entry. The context is that of the request.
	Append func(ctx context.Context, e control.AuditEntry)
}

// Start starts a run by hand.
func (a Audited) Start(ctx context.Context, q drill.StartRequest) (drill.StartResult, error) {
	result, err := a.Service.Start(ctx, q)
	if !q.DryRun && !errors.Is(err, drill.ErrNoDrill) {
		speed := strconv.FormatFloat(result.Plan.Speed, 'g', -1, 64)
		inputs := map[string]string{"drill": result.Plan.Drill, "speed": speed}
		a.audit(ctx, "drill run", result.Run, q.Actor, q.Reason, err, inputs)
	}
	return result, err
}

// Abort stops a run.
func (a Audited) Abort(ctx context.Context, id, by, reason string) (drill.Run, error) {
	run, err := a.Service.Abort(ctx, id, by, reason)
	a.audit(ctx, "drill abort", id, by, reason, err, nil)
	return run, err
}

// Freeze freezes drills, or ends the freeze.
func (a Audited) Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error) {
	action := "drill unfreeze"
	if f.On {
		action = "drill freeze"
	}
	now, err := a.Service.Freeze(ctx, f)
	a.audit(ctx, action, "", f.Actor, f.Reason, err, nil)
	return now, err
}

func (a Audited) audit(ctx context.Context, action, subject, by, reason string, err error, inputs map[string]string) {
	e := control.AuditEntry{
		At: time.Now(), Kind: control.KindDrill, Action: action, Result: control.Done,
		Subject: subject, Actor: by, Reason: reason, Inputs: inputs,
	}
	var refused *drill.RefusedError
	var busy *drill.BusyError
	switch {
	case errors.As(err, &refused):
		e.Result, e.Reason = control.Refused, refused.Reason
	case errors.As(err, &busy):
		e.Result, e.Reason = control.Refused, busy.Error()
	case errors.Is(err, drill.ErrFrozen):
		e.Result, e.Reason = control.Refused, drill.ErrFrozen.Error()
	case errors.Is(err, drill.ErrNoRun):
		e.Result, e.Reason = control.Refused, drill.ErrNoRun.Error()
	case err != nil:
		e.Result, e.Reason = control.Failed, "the record or the runner failed; the log says why"
	}
	a.Append(ctx, e)
}
