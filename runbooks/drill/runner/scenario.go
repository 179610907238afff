package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/judge"
)

// event is an action at a scenario time.
type event struct {
	at     time.Duration
	begins int // 1: it begins something; 0: it ends something, and comes before what begins at the same time
	do     func() error
}

// runScenario runs the events of a scenario, and waits for its end. The phase hold begins after the last event that
// begins something.
func (a *activeRun) runScenario() error {
	spec := a.spec().Scenario
	events := a.events(spec)
	begins := 0
	a.enterPhase(drill.PhaseInject, "")
	for _, e := range events {
		begins += e.begins
	}
	if begins == 0 {
		a.enterPhase(drill.PhaseHold, "")
	}
	for _, e := range events {
		if err := a.waitUntil(e.at); err != nil {
			return err
		}
		if err := e.do(); err != nil {
			return err
		}
		if begins -= e.begins; begins == 0 && e.begins > 0 {
			a.enterPhase(drill.PhaseHold, "")
		}
	}
	return a.waitUntil(spec.Duration)
}

func (a *activeRun) events(s drill.Scenario) []event {
	var all []event
	for n, i := range slices.Concat(s.Faults, s.Slack) {
		h := &injectedFault{injection: i, target: drill.TargetUpstream}
		if n >= len(s.Faults) {
			h.target = drill.TargetSlack
		}
		all = append(all,
			event{at: i.From, begins: 1, do: func() error { return a.inject(h) }},
			event{at: i.From + i.For, do: func() error { return a.clearFault(h) }})
	}
	for _, st := range s.Steps {
		all = append(all, event{at: st.At, begins: 1, do: func() error { return a.runStep(st) }})
		if st.For > 0 {
			all = append(all, event{at: st.At + st.For, do: func() error { return a.revertStep(st) }})
		}
	}
	slices.SortStableFunc(all, func(x, y event) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.begins, y.begins))
	})
	return all
}

// inject puts a fault in force.
func (a *activeRun) inject(h *injectedFault) error {
	lease, err := a.newLease(a.ctx, callTimeout, h)
	if err := a.failWith(err, drill.Inconclusive, "fault %s could not be injected", h.injection.Kind); err != nil {
		return err
	}
	a.update(func(*drill.Run) { h.lease, a.faults = lease, append(a.faults, h) })
	return nil
}

func (a *activeRun) newLease(ctx context.Context, limit time.Duration, h *injectedFault) (drill.Lease, error) {
	return callWithTimeout(ctx, limit, func(ctx context.Context) (drill.Lease, error) {
		return a.env.Inject(ctx, h.target, h.injection, LeaseTTL)
	}, clearLateFault)
}

// clearLateFault clears a fault that came into force after the limit.
func clearLateFault(l drill.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), drill.ClearLimit)
	defer cancel()
	_ = recoverPanic(func() error { _, err := l.Clear(ctx); return err })
}

// clearFault ends a fault at its time.
func (a *activeRun) clearFault(h *injectedFault) error {
	var lease drill.Lease
	a.update(func(*drill.Run) {
		lease = h.lease
		a.faults = slices.DeleteFunc(a.faults, func(o *injectedFault) bool { return o == h })
	})
	if lease == nil {
		return nil
	}
	what := fmt.Sprintf("fault %s on the way to %s", h.injection.Kind, h.target)
	_, err := a.clear(a.ctx, what, callTimeout, lease.Clear)
	if errors.Is(err, fault.ErrLeaseExpired) {
		err = nil
	}
	return a.failWith(err, drill.Failed, "the faults did not clear")
}

// runStep runs a step of the scenario.
func (a *activeRun) runStep(st drill.Step) error {
	t := judge.StepResult{Step: st, Requested: a.scenarioNow()}
	revert, err := callWithTimeout(a.ctx, callTimeout, func(ctx context.Context) (func(context.Context) error, error) {
		return a.env.RunStep(ctx, st)
	}, func(revert func(context.Context) error) { a.revertLateStep(st, revert) })
	t.Completed = a.scenarioNow()
	if err != nil {
		t.Err = err.Error()
	}
	a.update(func(*drill.Run) {
		a.facts.Steps = append(a.facts.Steps, t)
		if revert != nil {
			a.revertStack = append(a.revertStack, revertAction{len(a.facts.Steps) - 1, stepName(st), revert})
		}
	})
	verdict := drill.Inconclusive
	if st.Kind == drill.StepRollback || st.Kind == drill.StepRestore {
		verdict = drill.Failed // the rollback itself is under test
	}
	return a.failWith(err, verdict, "%s did not work", stepName(st))
}

func stepName(st drill.Step) string {
	return fmt.Sprintf("step %s at %s", st.Kind, format.Duration(st.At))
}

// revertLateStep reverts a step that was run after the limit.
func (a *activeRun) revertLateStep(st drill.Step, revert func(context.Context) error) {
	if revert == nil {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := recoverPanic(func() error { return revert(ctx) })
	a.recordUndo(stepName(st), began, err, "it was late")
}

// takeRevert removes and returns the latest revert action that matches; false: none matches.
func (a *activeRun) takeRevert(matches func(revertAction) bool) (revertAction, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, u := range slices.Backward(a.revertStack) {
		if matches(u) {
			a.revertStack = slices.Delete(a.revertStack, i, i+1)
			return u, true
		}
	}
	return revertAction{}, false
}

// revertStep reverts a step of the spec at its time.
func (a *activeRun) revertStep(st drill.Step) error {
	u, ok := a.takeRevert(func(u revertAction) bool { return u.name == stepName(st) })
	if !ok {
		return nil
	}
	return a.failWith(a.runRevert(a.ctx, u), drill.Failed, "%s could not be reverted", u.name)
}

// runRevert reverts a step and records that.
func (a *activeRun) runRevert(ctx context.Context, u revertAction) error {
	began := time.Now()
	err := doWithTimeout(ctx, callTimeout, u.do)
	a.recordUndo(u.name, began, err, "")
	at := a.scenarioNow()
	a.update(func(*drill.Run) {
		t := &a.facts.Steps[u.stepIndex]
		t.RevertedAt, t.Reverted = at, err == nil
	})
	return err
}
