package admission

import "runtime/debug"

// Panic is what a policy did instead of deciding. The gate fails open: the task
// in question comes in and is dispatched as in mode passthrough.
type Panic struct {
	Times int    // since the last call of Panics
	Value any    // of the first of them
	Stack []byte // of the first of them
}

// Panics returns the panics of the policy that were caught since the last call.
// When there was none, it costs no lock.
func (g *Gate) Panics() Panic {
	if !g.panicked.Load() {
		return Panic{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.panics
	g.panics = Panic{}
	g.panicked.Store(false)
	return p
}

func (g *Gate) caughtLocked(value any) {
	if g.panics.Times++; g.panics.Times == 1 {
		g.panics.Value, g.panics.Stack = value, debug.Stack()
		g.panicked.Store(true)
	}
}

// admitLocked asks the policy about a task that wants to come in.
func (g *Gate) admitLocked(v View, t Task) (verdict Verdict) {
	if g.leaving.Load() {
		return Verdict{}
	}
	defer func() {
		if value := recover(); value != nil {
			g.caughtLocked(value)
			verdict = Verdict{}
		}
	}()
	return g.settings.Policy.Admit(v, t)
}

// dispatchReasonLocked asks the policy about a task that came in earlier.
func (g *Gate) dispatchReasonLocked(v View, t *Ticket) (reason Reason) {
	if g.leaving.Load() || t.seq < g.honoured {
		return ReasonNone
	}
	defer func() {
		if value := recover(); value != nil {
			g.caughtLocked(value)
			reason = ReasonNone
		}
	}()
	return g.settings.Policy.Dispatch(v, t.task)
}
