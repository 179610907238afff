package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headgate/runbooks/drill"
	"headgate/runbooks/drill/judge"
)

// start is when scenario time is 0; zero before the load begins.
func (a *activeRun) start() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.facts.ScenarioStart
}

// waitUntil waits for a scenario time.
func (a *activeRun) waitUntil(t time.Duration) error {
	return sleepUntil(a.ctx, a.start().Add(time.Duration(float64(t)/a.claimed.Speed)))
}

// scenarioNow is the scenario time.
func (a *activeRun) scenarioNow() time.Duration {
	return time.Duration(float64(time.Since(a.start())) * a.claimed.Speed)
}

// observe reads the evidence so far, and evaluates all that is known.
func (a *activeRun) observe(ctx context.Context) (*judge.Evaluation, error) {
	e, err := callWithTimeout(ctx, callTimeout, a.env.Observe, nil)
	switch {
	case err != nil:
		return nil, err
	case len(e.Tasks) > drill.MaxTasks || len(e.Calls) > 2*drill.MaxTasks:
		return nil, fmt.Errorf("%d tasks were seen, and at most %d can be judged", len(e.Tasks), drill.MaxTasks)
	}
	a.mu.Lock()
	newest := !a.observed || e.At >= a.facts.Evidence.At // else another goroutine was faster
	if newest {
		a.facts.Evidence, a.observed = e, true
	}
	if newest && e.StaleReason == "" {
		a.lastFresh = time.Now()
	}
	evaluation := judge.NewEvaluation(a.factsLocked())
	a.mu.Unlock()
	if !newest {
		return evaluation, nil
	}
	series, hypotheses := evaluation.Series(), evaluation.Hypotheses()
	a.update(func(r *drill.Run) {
		r.Series, r.Hypotheses, r.Messages = series, hypotheses, recordedMessages(e.Messages)
		r.Injected = 0
		for _, n := range e.FaultHits {
			r.Injected += n
		}
	})
	return evaluation, nil
}

// mustObserve is observe where the run cannot continue without.
func (a *activeRun) mustObserve() (*judge.Evaluation, error) {
	evaluation, err := a.observe(a.ctx)
	return evaluation, a.failWith(err, drill.Inconclusive, "the environment cannot be observed")
}

// maxMessages bounds the messages that are kept with a run.
const maxMessages = 500

// recordedMessages are the messages as they are stored.
func recordedMessages(all []drill.Message) []drill.Message {
	out := append([]drill.Message(nil), all[:min(len(all), maxMessages)]...)
	for i := range out {
		m := &out[i]
		m.Accepted = m.Accepted.UTC().Truncate(time.Millisecond)
		m.FirstAttempt = m.FirstAttempt.UTC().Truncate(time.Millisecond) // the zero time stays zero
	}
	return out
}

// factsLocked returns a copy of the facts so far.
func (a *activeRun) factsLocked() judge.Facts {
	f := a.facts
	f.Run, f.Steps, f.ClearResults = a.record, slices.Clone(f.Steps), slices.Clone(f.ClearResults)
	return f
}
