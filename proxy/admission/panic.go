package admission

import "runtime/debug"

// PanicReport is what a policy did instead of deciding. The gate fails open: the task
// in question comes in and is dispatched as in mode passthrough.
type PanicReport struct {
	Count int    // since the last call of Panics
	Value any    // of the first of them
	Stack []byte // of the first of them
}

// TakePanics returns the panics of the policy that were caught since the last call.
// When there was none, it costs no lock.
func (g *Gate) TakePanics() PanicReport {
	if !g.panicked.Load() {
		return PanicReport{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pendingPanics
	g.pendingPanics = PanicReport{}
	g.panicked.Store(false)
	return p
}

func (g *Gate) recordPanicLocked(value any) {
	if g.pendingPanics.Count++; g.pendingPanics.Count == 1 {
		g.pendingPanics.Value, g.pendingPanics.Stack = value, debug.Stack()
		g.panicked.Store(true)
	}
}

// admitLocked asks the policy about a task that wants to come in.
func (g *Gate) admitLocked(v View, t Task) (verdict Verdict) {
	if g.bypassing.Load() {
		return Verdict{}
	}
	defer func() {
		if value := recover(); value != nil {
			g.recordPanicLocked(value)
			verdict = Verdict{}
		}
	}()
	return g.settings.Policy.Admit(v, t)
}

// dispatchReasonLocked asks the policy about a task that came in earlier.
func (g *Gate) dispatchReasonLocked(v View, t *Ticket) (reason Reason) {
	if g.bypassing.Load() || t.seq < g.grandfatheredBelow {
		return ReasonNone
	}
	defer func() {
		if value := recover(); value != nil {
			g.recordPanicLocked(value)
			reason = ReasonNone
		}
	}()
	return g.settings.Policy.Dispatch(v, t.task)
}
