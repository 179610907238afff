package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"headgate/proxy/admission"
)

// reportGatePanics is deferred around calls on the gate, and reports what went wrong
// in them: panics of the policy, which the gate has caught and let the task
// through, and one of the gate's own, which goes on and ends the task.
func (t *task) reportGatePanics() {
	caught := recover()
	p := t.pool.Gate.TakePanics()
	if caught == nil && p.Count == 0 {
		return
	}
	if caught != nil {
		p = admission.PanicReport{Count: p.Count + 1, Value: caught, Stack: debug.Stack()}
	}
	t.p.observer.OnGateEvent(GateEvent{Pool: t.pool.Name, Panics: p.Count})
	t.p.log.LogAttrs(context.Background(), slog.LevelError, "panic in the gate",
		slog.String("pool", t.pool.Name), slog.String("task", t.obs.TaskID), slog.Int("times", p.Count),
		slog.String("panic", fmt.Sprint(p.Value)), slog.String("stack", string(p.Stack)))
	if caught != nil {
		panic(caught)
	}
}

// reportFalseRefusal reports a refusal that the second opinion disputes.
func (t *task) reportFalseRefusal(d admission.Decision) {
	t.p.observer.OnGateEvent(GateEvent{Pool: t.pool.Name, FalseRefusal: d.Reason})
	t.p.log.LogAttrs(context.Background(), slog.LevelError, "false refusal",
		slog.String("pool", t.pool.Name), slog.String("task", t.obs.TaskID),
		slog.String("reason", d.Reason.String()), slog.String("why_false", d.Violation))
}
