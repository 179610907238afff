package drill

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// until waits for a scenario time.
func (a *active) until(t time.Duration) error { return pause(a.ctx, a.wall(t)) }

// wall turns scenario time into an instant of the wall clock.
func (a *active) wall(t time.Duration) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.facts.Zero.Add(time.Duration(float64(t) / a.run.Speed))
}

// now is the scenario time.
func (a *active) now() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(float64(time.Since(a.facts.Zero)) * a.run.Speed)
}

// look takes in what has been seen so far.
func (a *active) look(ctx context.Context) error {
	e, err := bounded(ctx, callLimit, a.stage.Look, nil)
	if err != nil {
		return err
	}
	if len(e.Tasks) > MaxTasks || len(e.Calls) > 2*MaxTasks {
		return fmt.Errorf("%d tasks were seen, and at most %d can be judged", len(e.Tasks), MaxTasks)
	}
	a.mu.Lock()
	if a.sighted && e.At < a.facts.Evidence.At {
		a.mu.Unlock()
		return nil // somebody else has seen more since
	}
	a.facts.Evidence, a.sighted = e, true
	if e.Stale == "" {
		a.seen = time.Now()
	}
	facts := a.factsLocked()
	a.mu.Unlock()
	series := Series(facts)
	hypotheses := Hypotheses(facts)
	a.change(func(r *Run) {
		r.Series, r.Hypotheses, r.Messages = series, hypotheses, kept(e.Messages)
		r.Injected = 0
		for _, n := range e.Befallen {
			r.Injected += n
		}
	})
	return nil
}

// mustLook is look where the run cannot go on without.
func (a *active) mustLook() error {
	err := a.look(a.ctx)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Inconclusive, "nothing more can be seen: %v", err)
	}
	return nil
}

// maxMessages bounds the messages that are kept with a run.
const maxMessages = 500

// kept are the messages as the record has them.
func kept(all []Message) []Message {
	out := append([]Message(nil), all[:min(len(all), maxMessages)]...)
	for i := range out {
		out[i].Accepted = out[i].Accepted.UTC().Truncate(time.Millisecond)
		if !out[i].Made.IsZero() {
			out[i].Made = out[i].Made.UTC().Truncate(time.Millisecond)
		}
	}
	return out
}

// looked is what has been seen, prepared for questions.
func (a *active) looked() *look {
	a.mu.Lock()
	f := a.factsLocked()
	a.mu.Unlock()
	return prepare(f)
}

// factsLocked is what is known so far. What it returns does not change any more.
func (a *active) factsLocked() Facts {
	f := a.facts
	f.Run, f.Taken, f.Clears = a.run, slices.Clone(f.Taken), slices.Clone(f.Clears)
	return f
}
