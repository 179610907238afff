package drill

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ending is what a run comes to before its verdict can be worked out.
type ending struct {
	verdict Verdict
	why     string
}

// Error is the reason.
func (e *ending) Error() string { return e.why }

func ends(v Verdict, format string, args ...any) error {
	return &ending{v, fmt.Sprintf(format, args...)}
}

// live carries the run out, from after its claim to its end. Whatever happens, what
// was injected is cleared and the row is closed.
func (a *active) live() {
	defer a.stop(nil)
	_, err := guarded(a.ctx, func(context.Context) (struct{}, error) { return struct{}{}, a.perform() })
	left := a.takeDown()
	verdict, why := a.conclude(err)
	if left != "" && verdict != Failed { // whoever stopped it has to know that it goes on
		verdict, why = Failed, left+"; "+why
	}
	if err != nil {
		if strayed := a.strayed(); strayed != "" {
			verdict, why = Failed, strayed+"; "+why
		}
	}
	a.end(verdict, why)
	run := a.snapshot()
	a.o.Log.Info("drill ended", "run", a.id, "drill", run.Drill, "verdict", string(verdict), "reason", why)
	if a.o.Ended != nil {
		_, _ = guarded(context.Background(), func(context.Context) (struct{}, error) { a.o.Ended(run); return struct{}{}, nil })
	}
}

// conclude turns the way in which a run ended into a verdict.
func (a *active) conclude(err error) (Verdict, string) {
	var e *ending
	var s *stopped
	switch {
	case errors.As(err, &e):
		return e.verdict, e.why
	case errors.As(err, &s):
		if s.wrong != "" {
			return Failed, s.wrong + "; stopped early: " + s.why
		}
		return Aborted, s.why
	case errors.Is(err, ErrClosed):
		return Aborted, "headgate is shutting down"
	case err != nil:
		return Inconclusive, err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	verdict, why, hypotheses := Judge(a.factsLocked())
	a.run.Hypotheses = hypotheses
	return verdict, why
}

// perform goes through the phases. It returns nil when there is something to judge.
func (a *active) perform() error {
	guard := a.guard()
	defer guard()
	if err := a.preflight(); err != nil {
		return err
	}
	a.phase(PhaseBrakes, "")
	if err := a.brakes(); err != nil {
		return err
	}
	if err := a.baseline(); err != nil {
		return err
	}
	if err := a.scenario(); err != nil {
		return err
	}
	if err := a.clear(); err != nil {
		return err
	}
	if err := a.recover(); err != nil {
		return err
	}
	a.phase(PhaseVerdict, a.recoveredNote())
	return a.lastLook()
}

// strayed says what a run that was not judged has done to production; empty: nothing
// that is known.
func (a *active) strayed() string {
	a.mu.Lock()
	begun, run := !a.facts.Zero.IsZero(), a.run
	a.mu.Unlock()
	if !begun {
		return ""
	}
	drift, err := bounded(context.Background(), callLimit, func(ctx context.Context) (Reading, error) { return a.o.Production.Drift(ctx, run) }, nil)
	if err != nil || !drift.Known || drift.Value == 0 {
		return ""
	}
	return drift.Why
}

// preflight says whether the run may begin, and builds its stage.
func (a *active) preflight() error {
	a.phase(PhasePreflight, "")
	f, err := bounded(a.ctx, callLimit, a.o.Store.Frozen, nil)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Skipped, "it is not known whether drills are frozen: %v", err)
	case f.On:
		return ends(Skipped, "%s", frozen(f).why)
	}
	run := a.snapshot()
	err = boundedly(a.ctx, callLimit, func(ctx context.Context) error { return a.o.Production.Ready(ctx, run) })
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Skipped, "%v", err)
	}
	a.stage, err = bounded(a.ctx, openLimit, func(ctx context.Context) (Stage, error) {
		return a.o.Opener.Open(ctx, run)
	}, closeLate)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Inconclusive, "the %s could not be built: %v", run.Spec.Target, err)
	}
	return nil
}

// closeLate takes down a stage that came when nobody waited for it any more.
func closeLate(s Stage) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_, _ = guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Close(ctx) })
}

// brakes trips the way by which a run is stopped, before there is anything to stop.
func (a *active) brakes() error {
	took, err := bounded(a.ctx, callLimit, a.stage.Canary, nil)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Failed, "the brakes do not work: %v", err)
	case took > ClearLimit:
		return ends(Failed, "the brakes are slow: clearing a canary took %.1f s, of at most %.0f", took.Seconds(), ClearLimit.Seconds())
	}
	a.change(func(r *Run) {
		r.Phases[len(r.Phases)-1].Note = fmt.Sprintf("a canary was let go after %d ms", took.Milliseconds())
	})
	return nil
}

// baseline starts the load and waits for the steady state.
func (a *active) baseline() error {
	run := a.snapshot()
	if run.Spec.Scenario.Baseline > 0 {
		a.phase(PhaseBaseline, "")
	}
	zero, err := bounded(a.ctx, openLimit, a.stage.Start, nil)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Inconclusive, "the load could not be started: %v", err)
	}
	a.mu.Lock()
	a.facts.Zero = zero
	a.seen = time.Now()
	a.mu.Unlock()
	if run.Spec.Scenario.Baseline == 0 {
		return nil
	}
	if err := a.until(0); err != nil {
		return err
	}
	if err := a.mustLook(); err != nil {
		return err
	}
	l := a.looked()
	why, few := l.steadyBefore()
	if why == "" {
		return nil
	}
	if wrong := l.wrong(); wrong != "" {
		return ends(Failed, "before there was any trouble: %s", wrong)
	}
	if wrong := l.unprovedBefore(); wrong != "" {
		return ends(Inconclusive, "before there was any trouble: %s", wrong)
	}
	if few {
		return ends(Inconclusive, "there is nothing to compare with: %s", why)
	}
	return ends(Skipped, "the steady state does not hold: %s", why)
}

// clear makes sure that nothing is left of what was injected.
func (a *active) clear() error {
	a.phase(PhaseClear, "")
	cleared, err := a.clearAll(a.ctx)
	a.takeBack(a.ctx)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Failed, "the faults did not clear: %v", err)
	case !cleared.Confirmed || cleared.Held > 0:
		return ends(Failed, "the faults did not clear: %d calls are still held", cleared.Held)
	}
	return nil
}

// recover waits until all is as before, or the limit has passed.
func (a *active) recover() error {
	a.phase(PhaseRecover, "")
	spec := a.snapshot().Spec
	limit := spec.Scenario.Duration + spec.Recovery
	for {
		if err := a.mustLook(); err != nil {
			return err
		}
		l := a.looked()
		why := l.steadyAfter()
		a.mu.Lock()
		a.facts.Steady, a.facts.SteadyWhy = why == "", why
		a.facts.SteadyIn = max(0, l.Evidence.At-spec.Scenario.end())
		a.run.Recovered = a.facts.SteadyIn
		a.mu.Unlock()
		if why == "" || l.Evidence.At >= limit || a.now() > limit+time.Minute {
			return nil
		}
		if err := pause(a.ctx, time.Now().Add(looking/2)); err != nil {
			return err
		}
	}
}

func (a *active) recoveredNote() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.facts.Steady {
		return "not as before: " + a.facts.SteadyWhy
	}
	return "as before " + formatDuration(a.facts.SteadyIn.Round(time.Second)) + " after the trouble"
}

// lastLook gathers what the verdict rests on.
func (a *active) lastLook() error {
	a.mu.Lock()
	a.facts.Over = true
	a.mu.Unlock()
	if err := a.mustLook(); err != nil {
		return err
	}
	run := a.snapshot()
	drift, err := bounded(a.ctx, callLimit, func(ctx context.Context) (Reading, error) { return a.o.Production.Drift(ctx, run) }, nil)
	if err != nil {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		drift = Reading{Why: "production could not be looked at: " + err.Error()}
	}
	a.mu.Lock()
	a.facts.Drift = drift
	a.mu.Unlock()
	return nil
}
