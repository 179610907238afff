package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// event is something that the runner does at a scenario time.
type event struct {
	at   time.Duration
	ends bool // it ends something: before what begins at the same time
	do   func() error
}

// runScenario goes through the events of a scenario, and waits for its end.
func (a *activeRun) runScenario() error {
	spec := a.snapshot().Spec.Scenario
	events := a.events(spec)
	begins := 0
	for _, e := range events {
		begins += btoi(!e.ends)
	}
	a.enterPhase(PhaseInject, "")
	for _, e := range events {
		if begins == 0 {
			a.enterPhase(PhaseHold, "")
			begins--
		}
		if err := a.waitUntil(e.at); err != nil {
			return err
		}
		if err := e.do(); err != nil {
			return err
		}
		begins -= btoi(!e.ends)
	}
	if begins == 0 {
		a.enterPhase(PhaseHold, "")
	}
	return a.waitUntil(spec.Duration)
}

func (a *activeRun) events(s Scenario) []event {
	var all []event
	add := func(way FaultTarget, i Injection) {
		h := &injectedFault{injection: i, target: way}
		all = append(all,
			event{at: i.From, do: func() error { return a.inject(h) }},
			event{at: i.From + i.For, ends: true, do: func() error { return a.clearFault(h) }})
	}
	for _, i := range s.Faults {
		add(TargetUpstream, i)
	}
	for _, i := range s.Slack {
		add(TargetSlack, i)
	}
	for n, st := range s.Steps {
		all = append(all, event{at: st.At, do: func() error { return a.runStep(n, st) }})
		if st.For > 0 {
			all = append(all, event{at: st.At + st.For, ends: true, do: func() error { return a.undoStep(n) }})
		}
	}
	slices.SortStableFunc(all, func(x, y event) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(btoi(y.ends), btoi(x.ends)))
	})
	return all
}

// inject puts a fault in force.
func (a *activeRun) inject(h *injectedFault) error {
	lease, err := callWithTimeout(a.ctx, callTimeout, func(ctx context.Context) (Lease, error) {
		return a.env.Inject(ctx, h.target, h.injection, LeaseTTL)
	}, clearLateFault)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return endWith(Inconclusive, "fault %s could not be injected: %v", h.injection.Kind, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h.lease = lease
	a.faults = append(a.faults, h)
	return nil
}

// clearLateFault clears a fault that came into force when nobody waited for it any more.
func clearLateFault(l Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), ClearLimit)
	defer cancel()
	_, _ = recoverPanic(ctx, l.Clear)
}

// clearFault ends a fault at its time.
func (a *activeRun) clearFault(h *injectedFault) error {
	a.mu.Lock()
	lease := h.lease
	a.faults = slices.DeleteFunc(a.faults, func(o *injectedFault) bool { return o == h })
	a.mu.Unlock()
	if lease == nil {
		return nil
	}
	began := time.Now()
	c, err := callWithTimeout(a.ctx, callTimeout, lease.Clear, nil)
	if err == nil && c.Took == 0 {
		c.Took = time.Since(began)
	}
	a.recordClear(fmt.Sprintf("fault %s on the way to %s", h.injection.Kind, h.target), began, c, err)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil && !errors.Is(err, ErrLeaseExpired):
		return endWith(Failed, "the faults did not clear: %v", err)
	}
	return nil
}

// recordClear records that faults were cleared.
func (a *activeRun) recordClear(what string, began time.Time, c ClearResult, err error) {
	note := fmt.Sprintf("%d calls were let go", c.Released)
	if c.Released == 1 {
		note = "1 call was let go"
	}
	if err == nil && (!c.Confirmed || c.Held > 0) {
		err = fmt.Errorf("not confirmed: %d calls are still held", c.Held)
	}
	a.recordUndo(what, began, err, note)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || !errors.Is(err, ErrLeaseExpired) {
		a.facts.ClearResults = append(a.facts.ClearResults, c)
	}
	a.record.ClearTook = max(a.record.ClearTook, time.Since(began))
}

// runStep takes a step of the scenario.
func (a *activeRun) runStep(n int, st Step) error {
	t := StepResult{Step: st, Requested: a.scenarioNow()}
	back, err := callWithTimeout(a.ctx, callTimeout, func(ctx context.Context) (func(context.Context) error, error) {
		return a.env.RunStep(ctx, st)
	}, func(back func(context.Context) error) { a.undoLateStep(st, back) })
	t.Completed = a.scenarioNow()
	if err != nil {
		t.Err = err.Error()
	}
	a.mu.Lock()
	a.facts.Steps = append(a.facts.Steps, t)
	if back != nil {
		a.undoStack = append(a.undoStack, undoAction{len(a.facts.Steps) - 1, stepName(st), back})
	}
	a.mu.Unlock()
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil && (st.Kind == StepRollback || st.Kind == StepRestore):
		return endWith(Failed, "%s did not work: %v", stepName(st), err)
	case err != nil:
		return endWith(Inconclusive, "%s did not work: %v", stepName(st), err)
	}
	return nil
}

func stepName(st Step) string { return fmt.Sprintf("step %s at %s", st.Kind, formatDuration(st.At)) }

// undoLateStep takes back a step that was taken when nobody waited for it any more.
func (a *activeRun) undoLateStep(st Step, back func(context.Context) error) {
	if back == nil {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := recoverPanic(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, back(ctx) })
	a.recordUndo(stepName(st), began, err, "it had come late")
}

// undoStep takes back the step with a number of the spec, at its time.
func (a *activeRun) undoStep(n int) error {
	name := stepName(a.snapshot().Spec.Scenario.Steps[n])
	a.mu.Lock()
	i := slices.IndexFunc(a.undoStack, func(u undoAction) bool { return u.name == name })
	var u undoAction
	if i >= 0 {
		u = a.undoStack[i]
		a.undoStack = slices.Delete(a.undoStack, i, i+1)
	}
	a.mu.Unlock()
	if i < 0 {
		return nil
	}
	if err := a.runUndo(a.ctx, u); err != nil && a.ctx.Err() == nil {
		return endWith(Failed, "%s could not be taken back: %v", u.name, err)
	}
	return context.Cause(a.ctx)
}

// runUndo takes a step back and records it.
func (a *activeRun) runUndo(ctx context.Context, u undoAction) error {
	began := time.Now()
	err := doWithTimeout(ctx, callTimeout, u.do)
	a.recordUndo(u.name, began, err, "")
	at := a.scenarioNow()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		t := &a.facts.Steps[u.stepIndex]
		t.RevertedAt, t.Reverted = at, true
	}
	return err
}
