package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/judge"
)

// failWith ends a run with a verdict because of err, unless the run is to stop, which has precedence; nil without
// either.
func (a *activeRun) failWith(err error, v drill.Verdict, format string, args ...any) error {
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return endWith(v, "%s: %v", fmt.Sprintf(format, args...), err)
	}
	return nil
}

// run goes from the claim to the end of the run. In every case faults are cleared and the record is closed.
func (a *activeRun) run() {
	defer a.stop(nil)
	err := recoverPanic(a.runPhases)
	left := a.cleanUp()
	verdict, why := a.verdict(err)
	if left != nil && verdict != drill.Failed { // faults in force matter more than the reason of the stop
		verdict, why = drill.Failed, fmt.Sprintf("the faults did not clear: %v; %s", left, why)
	}
	if err != nil {
		if drifted := a.productionDrift(); drifted != "" {
			verdict, why = drill.Failed, drifted+"; "+why
		}
	}
	a.finish(verdict, why)
	run := a.snapshot()
	a.o.Log.Info("drill ended", "run", run.ID, "drill", run.Drill, "verdict", string(verdict), "reason", why)
	if a.o.OnEnded != nil {
		_ = recoverPanic(func() error { a.o.OnEnded(run); return nil })
	}
}

// verdict returns the verdict of a run that ended with err; without one it is judged.
func (a *activeRun) verdict(err error) (drill.Verdict, string) {
	var e *outcome
	switch {
	case errors.As(err, &e):
		return e.verdict, e.reason
	case err != nil:
		return drill.Inconclusive, err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	verdict, why, hypotheses := judge.Judge(a.factsLocked())
	a.record.Hypotheses = hypotheses
	return verdict, why
}

// runPhases runs all phases. It returns nil when the run can be judged.
func (a *activeRun) runPhases() error {
	stopMonitors := a.startMonitors()
	defer stopMonitors()
	phases := []func() error{a.preflight, a.checkFaultClearing, a.runBaseline, a.runScenario, a.runClear, a.runRecovery}
	for _, phase := range phases {
		if err := phase(); err != nil {
			return err
		}
	}
	a.enterPhase(drill.PhaseVerdict, a.recoveryNote())
	return a.finalObservation()
}

// productionDrift says what a run that was not judged has done to production; empty: nothing that is known.
func (a *activeRun) productionDrift() string {
	if a.start().IsZero() {
		return ""
	}
	drift, err := a.readDrift(context.Background())
	if err != nil || !drift.Measured || drift.Value == 0 {
		return ""
	}
	return drift.Reason
}

func (a *activeRun) readDrift(ctx context.Context) (drill.Reading, error) {
	return callWithTimeout(ctx, callTimeout, func(ctx context.Context) (drill.Reading, error) {
		return a.o.Production.Drift(ctx, a.claimed)
	}, nil)
}

// preflight checks whether the run may begin, and builds its environment.
func (a *activeRun) preflight() error {
	a.enterPhase(drill.PhasePreflight, "")
	f, err := callWithTimeout(a.ctx, callTimeout, a.o.Store.Frozen, nil)
	if err := a.failWith(err, drill.Skipped, "it is not known whether drills are frozen"); err != nil {
		return err
	}
	if f.On {
		return endWith(drill.Skipped, "%v", frozenBy(f))
	}
	err = doWithTimeout(a.ctx, callTimeout, func(ctx context.Context) error {
		return a.o.Production.Ready(ctx, a.claimed)
	})
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return endWith(drill.Skipped, "%v", err)
	}
	a.env, err = callWithTimeout(a.ctx, openTimeout, func(ctx context.Context) (drill.Environment, error) {
		return a.o.Environments.Open(ctx, a.claimed)
	}, closeLateEnvironment)
	return a.failWith(err, drill.Inconclusive, "the %s could not be built", a.spec().Target)
}

// closeLateEnvironment closes an environment that was built after the limit.
func closeLateEnvironment(s drill.Environment) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = recoverPanic(func() error { return s.Close(ctx) })
}

// checkFaultClearing checks that a fault can be cleared, on a canary call that is not part of the load.
func (a *activeRun) checkFaultClearing() error {
	a.enterPhase(drill.PhaseClearCheck, "")
	took, err := callWithTimeout(a.ctx, callTimeout, a.env.Canary, nil)
	if err := a.failWith(err, drill.Failed, "the fault-clearing check failed"); err != nil {
		return err
	}
	if took > drill.ClearLimit {
		return endWith(drill.Failed, "clearing faults is slow: clearing a canary took %.1f s, of at most %.0f",
			took.Seconds(), drill.ClearLimit.Seconds())
	}
	a.update(func(r *drill.Run) {
		r.Phases[len(r.Phases)-1].Note = fmt.Sprintf("the canary was released after %d ms", took.Milliseconds())
	})
	return nil
}

// runBaseline starts the load and waits for the steady state.
func (a *activeRun) runBaseline() error {
	baseline := a.spec().Scenario.Baseline
	if baseline > 0 {
		a.enterPhase(drill.PhaseBaseline, "")
	}
	scenarioStart, err := callWithTimeout(a.ctx, openTimeout, a.env.Start, nil)
	if err := a.failWith(err, drill.Inconclusive, "the load could not be started"); err != nil {
		return err
	}
	a.update(func(*drill.Run) { a.facts.ScenarioStart, a.lastFresh = scenarioStart, time.Now() })
	if baseline == 0 {
		return nil
	}
	if err := a.waitUntil(0); err != nil {
		return err
	}
	e, err := a.mustObserve()
	if err != nil {
		return err
	}
	reason, tooFewSamples := e.UnsteadyBaseline()
	if reason == "" {
		return nil
	}
	if wrong := e.ViolationsSoFar(); wrong != "" {
		return endWith(drill.Failed, "violated before the disturbance: %s", wrong)
	}
	if wrong := e.BaselinePreconditionFailure(); wrong != "" {
		return endWith(drill.Inconclusive, "not judgeable before the disturbance: %s", wrong)
	}
	if tooFewSamples {
		return endWith(drill.Inconclusive, "no reference to compare with: %s", reason)
	}
	return endWith(drill.Skipped, "the steady state does not hold: %s", reason)
}

// runClear clears all faults and reverts all steps.
func (a *activeRun) runClear() error {
	a.enterPhase(drill.PhaseClear, "")
	err := a.clearAll(a.ctx)
	a.revertSteps(a.ctx)
	return a.failWith(err, drill.Failed, "the faults did not clear")
}

// runRecovery waits until the steady state is back, or the limit has passed.
func (a *activeRun) runRecovery() error {
	a.enterPhase(drill.PhaseRecover, "")
	spec := a.spec()
	limit := spec.Scenario.Duration + spec.Recovery
	for {
		e, err := a.mustObserve()
		if err != nil {
			return err
		}
		why := e.UnsteadyAfter()
		a.update(func(r *drill.Run) {
			r.Recovered = max(0, e.Evidence.At-spec.Scenario.DisturbanceEnd())
			a.facts.SteadyState, a.facts.UnsteadyReason, a.facts.RecoveryTime = why == "", why, r.Recovered
		})
		if why == "" || e.Evidence.At >= limit || a.scenarioNow() > limit+time.Minute {
			return nil
		}
		if err := sleepUntil(a.ctx, time.Now().Add(observeInterval/2)); err != nil {
			return err
		}
	}
}

func (a *activeRun) recoveryNote() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.facts.SteadyState {
		return "not recovered: " + a.facts.UnsteadyReason
	}
	return "recovered " + format.Duration(a.facts.RecoveryTime.Round(time.Second)) + " after the disturbance"
}

// finalObservation gathers the evidence for the verdict.
func (a *activeRun) finalObservation() error {
	a.update(func(*drill.Run) { a.facts.Complete = true })
	if _, err := a.mustObserve(); err != nil {
		return err
	}
	drift, err := a.readDrift(a.ctx)
	switch {
	case a.ctx.Err() != nil && err != nil:
		return context.Cause(a.ctx)
	case err != nil:
		drift = drill.Reading{Reason: "production could not be observed: " + err.Error()}
	}
	a.update(func(*drill.Run) { a.facts.Drift = drift })
	return nil
}
