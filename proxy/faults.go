package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"headgate/proxy/admission"
)

// gateFaults is deferred around calls on the gate, and reports what went wrong
// in them: panics of the policy, which the gate has caught and let the task
// through, and one of the gate's own, which goes on and ends the task.
func (t *task) gateFaults() {
	caught := recover()
	p := t.pool.Gate.Panics()
	if caught == nil && p.Times == 0 {
		return
	}
	if caught != nil {
		p = admission.Panic{Times: p.Times + 1, Value: caught, Stack: debug.Stack()}
	}
	t.p.observer.Decided(GateWork{Pool: t.pool.Name, Panics: p.Times})
	t.p.log.LogAttrs(context.Background(), slog.LevelError, "panic in the gate",
		slog.String("pool", t.pool.Name), slog.String("task", t.obs.TaskID), slog.Int("times", p.Times),
		slog.String("panic", fmt.Sprint(p.Value)), slog.String("stack", string(p.Stack)))
	if caught != nil {
		panic(caught)
	}
}

// falselyRefused reports a refusal that the second opinion disputes.
func (t *task) falselyRefused(d admission.Decision) {
	t.p.observer.Decided(GateWork{Pool: t.pool.Name, False: d.Reason})
	t.p.log.LogAttrs(context.Background(), slog.LevelError, "false refusal",
		slog.String("pool", t.pool.Name), slog.String("task", t.obs.TaskID),
		slog.String("reason", d.Reason.String()), slog.String("why_false", d.Disputed))
}
