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

// outcome ends a run with a verdict before it can be judged.
type outcome struct {
	verdict drill.Verdict
	reason  string
}

// Error is the reason.
func (e *outcome) Error() string { return e.reason }

func endWith(v drill.Verdict, format string, args ...any) error {
	return &outcome{v, fmt.Sprintf(format, args...)}
}

// failWith ends a run with a verdict because of err, unless the run is to stop, which has precedence; nil without either.
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
	if left != "" && verdict != drill.Failed { // faults in force matter more than the reason of the stop
		verdict, why = drill.Failed, left+"; "+why
	}
	if err != nil {
		if strayed := a.productionDrift(); strayed != "" {
			verdict, why = drill.Failed, strayed+"; "+why
		}
	}
	a.finish(verdict, why)
	run := a.snapshot()
	a.o.Log.Info("drill ended", "run", a.id, "drill", run.Drill, "verdict", string(verdict), "reason", why)
	if a.o.OnEnded != nil {
		_ = recoverPanic(func() error { a.o.OnEnded(run); return nil })
	}
}

// verdict returns the verdict of a run that ended with err; without one it is judged.
func (a *activeRun) verdict(err error) (drill.Verdict, string) {
	var e *outcome
	var s *stopCause
	switch {
	case errors.As(err, &e):
		return e.verdict, e.reason
	case errors.As(err, &s):
		if s.violations != "" {
			return drill.Failed, s.violations + "; stopped early: " + s.reason
		}
		return drill.Aborted, s.reason
	case errors.Is(err, ErrClosed):
		return drill.Aborted, "headgate is shutting down"
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
	guard := a.startMonitors()
	defer guard()
	for _, phase := range []func() error{a.preflight, a.checkBrakes, a.runBaseline, a.runScenario, a.runClear, a.runRecovery} {
		if err := phase(); err != nil {
			return err
		}
	}
	a.enterPhase(drill.PhaseVerdict, a.recoveryNote())
	return a.finalObservation()
}

// productionDrift says what a run that was not judged has done to production; empty: nothing that is known.
func (a *activeRun) productionDrift() string {
	a.mu.Lock()
	begun, run := !a.facts.ScenarioStart.IsZero(), a.record
	a.mu.Unlock()
	if !begun {
		return ""
	}
	drift, err := a.readDrift(context.Background(), run)
	if err != nil || !drift.Measured || drift.Value == 0 {
		return ""
	}
	return drift.Reason
}

func (a *activeRun) readDrift(ctx context.Context, run drill.Run) (drill.Reading, error) {
	return callWithTimeout(ctx, callTimeout, func(ctx context.Context) (drill.Reading, error) {
		return a.o.Production.Drift(ctx, run)
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
		return endWith(drill.Skipped, "%s", frozenCause(f).reason)
	}
	run := a.snapshot()
	err = doWithTimeout(a.ctx, callTimeout, func(ctx context.Context) error { return a.o.Production.Ready(ctx, run) })
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return endWith(drill.Skipped, "%v", err)
	}
	a.env, err = callWithTimeout(a.ctx, openTimeout, func(ctx context.Context) (drill.Environment, error) {
		return a.o.Environments.Open(ctx, run)
	}, closeLateEnvironment)
	return a.failWith(err, drill.Inconclusive, "the %s could not be built", run.Spec.Target)
}

// closeLateEnvironment closes an environment that was built after the limit.
func closeLateEnvironment(s drill.Environment) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = recoverPanic(func() error { return s.Close(ctx) })
}

// checkBrakes checks that faults can be cleared, on a separate call.
func (a *activeRun) checkBrakes() error {
	a.enterPhase(drill.PhaseBrakes, "")
	took, err := callWithTimeout(a.ctx, callTimeout, a.env.Canary, nil)
	if err := a.failWith(err, drill.Failed, "the fault-clearing check failed"); err != nil {
		return err
	}
	if took > drill.ClearLimit {
		return endWith(drill.Failed, "clearing faults is slow: clearing a canary took %.1f s, of at most %.0f", took.Seconds(), drill.ClearLimit.Seconds())
	}
	a.update(func(r *drill.Run) {
		r.Phases[len(r.Phases)-1].Note = fmt.Sprintf("the canary was released after %d ms", took.Milliseconds())
	})
	return nil
}

// runBaseline starts the load and waits for the steady state.
func (a *activeRun) runBaseline() error {
	run := a.snapshot()
	if run.Spec.Scenario.Baseline > 0 {
		a.enterPhase(drill.PhaseBaseline, "")
	}
	zero, err := callWithTimeout(a.ctx, openTimeout, a.env.Start, nil)
	if err := a.failWith(err, drill.Inconclusive, "the load could not be started"); err != nil {
		return err
	}
	a.mu.Lock()
	a.facts.ScenarioStart = zero
	a.lastFresh = time.Now()
	a.mu.Unlock()
	if run.Spec.Scenario.Baseline == 0 {
		return nil
	}
	if err := a.waitUntil(0); err != nil {
		return err
	}
	if err := a.mustObserve(); err != nil {
		return err
	}
	l := a.evaluation()
	why, few := l.UnsteadyBaseline()
	if why == "" {
		return nil
	}
	if wrong := l.ViolationsSoFar(); wrong != "" {
		return endWith(drill.Failed, "violated before the disturbance: %s", wrong)
	}
	if wrong := l.BaselinePreconditionFailure(); wrong != "" {
		return endWith(drill.Inconclusive, "not judgeable before the disturbance: %s", wrong)
	}
	if few {
		return endWith(drill.Inconclusive, "no reference to compare with: %s", why)
	}
	return endWith(drill.Skipped, "the steady state does not hold: %s", why)
}

// runClear clears all faults and reverts all steps.
func (a *activeRun) runClear() error {
	a.enterPhase(drill.PhaseClear, "")
	cleared, err := a.clearAll(a.ctx)
	a.undoSteps(a.ctx)
	if err := a.failWith(err, drill.Failed, "the faults did not clear"); err != nil {
		return err
	}
	if !cleared.Confirmed || cleared.Held > 0 {
		return endWith(drill.Failed, "the faults did not clear: %d calls are still held", cleared.Held)
	}
	return nil
}

// runRecovery waits until the steady state is back, or the limit has passed.
func (a *activeRun) runRecovery() error {
	a.enterPhase(drill.PhaseRecover, "")
	spec := a.snapshot().Spec
	limit := spec.Scenario.Duration + spec.Recovery
	for {
		if err := a.mustObserve(); err != nil {
			return err
		}
		l := a.evaluation()
		why := l.UnsteadyAfter()
		a.mu.Lock()
		a.facts.SteadyState, a.facts.UnsteadyReason = why == "", why
		a.facts.RecoveryTime = max(0, l.Evidence.At-spec.Scenario.DisturbanceEnd())
		a.record.Recovered = a.facts.RecoveryTime
		a.mu.Unlock()
		if why == "" || l.Evidence.At >= limit || a.scenarioNow() > limit+time.Minute {
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
	a.mu.Lock()
	a.facts.Complete = true
	a.mu.Unlock()
	if err := a.mustObserve(); err != nil {
		return err
	}
	drift, err := a.readDrift(a.ctx, a.snapshot())
	if err != nil {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		drift = drill.Reading{Reason: "production could not be observed: " + err.Error()}
	}
	a.mu.Lock()
	a.facts.Drift = drift
	a.mu.Unlock()
	return nil
}
