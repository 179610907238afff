package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/judge"
)

// event is an action at a scenario time.
type event struct {
	at     time.Duration
	begins int // 1: it begins something; 0: it ends something, before what begins at the same time
	do     func() error
}

// runScenario goes through the events of a scenario, and waits for its end.
func (a *activeRun) runScenario() error {
	spec := a.snapshot().Spec.Scenario
	events := a.events(spec)
	begins := 0
	for _, e := range events {
		begins += e.begins
	}
	a.enterPhase(drill.PhaseInject, "")
	for _, e := range events {
		if begins == 0 {
			a.enterPhase(drill.PhaseHold, "")
			begins--
		}
		if err := a.waitUntil(e.at); err != nil {
			return err
		}
		if err := e.do(); err != nil {
			return err
		}
		begins -= e.begins
	}
	if begins == 0 {
		a.enterPhase(drill.PhaseHold, "")
	}
	return a.waitUntil(spec.Duration)
}

func (a *activeRun) events(s drill.Scenario) []event {
	var all []event
	add := func(way drill.FaultTarget, i drill.Injection) {
		h := &injectedFault{injection: i, target: way}
		all = append(all,
			event{at: i.From, begins: 1, do: func() error { return a.inject(h) }},
			event{at: i.From + i.For, do: func() error { return a.clearFault(h) }})
	}
	for _, i := range s.Faults {
		add(drill.TargetUpstream, i)
	}
	for _, i := range s.Slack {
		add(drill.TargetSlack, i)
	}
	for n, st := range s.Steps {
		all = append(all, event{at: st.At, begins: 1, do: func() error { return a.runStep(n, st) }})
		if st.For > 0 {
			all = append(all, event{at: st.At + st.For, do: func() error { return a.undoStep(n) }})
		}
	}
	slices.SortStableFunc(all, func(x, y event) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.begins, y.begins))
	})
	return all
}

// inject puts a fault in force.
func (a *activeRun) inject(h *injectedFault) error {
	lease, err := callWithTimeout(a.ctx, callTimeout, func(ctx context.Context) (drill.Lease, error) {
		return a.env.Inject(ctx, h.target, h.injection, LeaseTTL)
	}, clearLateFault)
	if err := a.failWith(err, drill.Inconclusive, "fault %s could not be injected", h.injection.Kind); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h.lease = lease
	a.faults = append(a.faults, h)
	return nil
}

// clearLateFault clears a fault that came into force after the limit.
func clearLateFault(l drill.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), drill.ClearLimit)
	defer cancel()
	_ = recoverPanic(func() error { _, err := l.Clear(ctx); return err })
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
	if errors.Is(err, drill.ErrLeaseExpired) {
		err = nil
	}
	return a.failWith(err, drill.Failed, "the faults did not clear")
}

// recordClear records that faults were cleared.
func (a *activeRun) recordClear(what string, began time.Time, c drill.ClearResult, err error) {
	note := format.Plural(c.Released, "call") + " released"
	if err == nil && (!c.Confirmed || c.Held > 0) {
		err = fmt.Errorf("not confirmed: %d calls are still held", c.Held)
	}
	a.recordUndo(what, began, err, note)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || !errors.Is(err, drill.ErrLeaseExpired) {
		a.facts.ClearResults = append(a.facts.ClearResults, c)
	}
	a.record.ClearTook = max(a.record.ClearTook, time.Since(began))
}

// runStep runs a step of the scenario.
func (a *activeRun) runStep(n int, st drill.Step) error {
	t := judge.StepResult{Step: st, Requested: a.scenarioNow()}
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
	verdict := drill.Inconclusive
	if st.Kind == drill.StepRollback || st.Kind == drill.StepRestore {
		verdict = drill.Failed // the rollback itself is under test
	}
	return a.failWith(err, verdict, "%s did not work", stepName(st))
}

func stepName(st drill.Step) string {
	return fmt.Sprintf("step %s at %s", st.Kind, format.Duration(st.At))
}

// undoLateStep reverts a step that was run after the limit.
func (a *activeRun) undoLateStep(st drill.Step, back func(context.Context) error) {
	if back == nil {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := recoverPanic(func() error { return back(ctx) })
	a.recordUndo(stepName(st), began, err, "it was late")
}

// undoStep reverts a step of the spec at its time.
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
		return endWith(drill.Failed, "%s could not be reverted: %v", u.name, err)
	}
	return context.Cause(a.ctx)
}

// runUndo reverts a step and records that.
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
