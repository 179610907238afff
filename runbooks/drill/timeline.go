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

// scenario goes through the events of a scenario, and waits for its end.
func (a *active) scenario() error {
	spec := a.snapshot().Spec.Scenario
	events := a.events(spec)
	begins := 0
	for _, e := range events {
		begins += one(!e.ends)
	}
	a.phase(PhaseInject, "")
	for _, e := range events {
		if begins == 0 {
			a.phase(PhaseHold, "")
			begins--
		}
		if err := a.until(e.at); err != nil {
			return err
		}
		if err := e.do(); err != nil {
			return err
		}
		begins -= one(!e.ends)
	}
	if begins == 0 {
		a.phase(PhaseHold, "")
	}
	return a.until(spec.Duration)
}

func (a *active) events(s Scenario) []event {
	var all []event
	add := func(way Way, i Injection) {
		h := &held{injection: i, way: way}
		all = append(all,
			event{at: i.From, do: func() error { return a.inject(h) }},
			event{at: i.From + i.For, ends: true, do: func() error { return a.release(h) }})
	}
	for _, i := range s.Faults {
		add(ToUpstream, i)
	}
	for _, i := range s.Slack {
		add(ToSlack, i)
	}
	for n, st := range s.Steps {
		all = append(all, event{at: st.At, do: func() error { return a.step(n, st) }})
		if st.For > 0 {
			all = append(all, event{at: st.At + st.For, ends: true, do: func() error { return a.stepBack(n) }})
		}
	}
	slices.SortStableFunc(all, func(x, y event) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(one(y.ends), one(x.ends)))
	})
	return all
}

// inject puts a fault in force.
func (a *active) inject(h *held) error {
	lease, err := bounded(a.ctx, callLimit, func(ctx context.Context) (Lease, error) {
		return a.stage.Inject(ctx, h.way, h.injection, LeaseTTL)
	}, clearLate)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil:
		return ends(Inconclusive, "fault %s could not be injected: %v", h.injection.Kind, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h.lease = lease
	a.leases = append(a.leases, h)
	return nil
}

// clearLate clears a fault that came into force when nobody waited for it any more.
func clearLate(l Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), ClearLimit)
	defer cancel()
	_, _ = guarded(ctx, l.Clear)
}

// release ends a fault at its time.
func (a *active) release(h *held) error {
	a.mu.Lock()
	lease := h.lease
	a.leases = slices.DeleteFunc(a.leases, func(o *held) bool { return o == h })
	a.mu.Unlock()
	if lease == nil {
		return nil
	}
	began := time.Now()
	c, err := bounded(a.ctx, callLimit, lease.Clear, nil)
	if err == nil && c.Took == 0 {
		c.Took = time.Since(began)
	}
	a.cleared(fmt.Sprintf("fault %s on the way to %s", h.injection.Kind, h.way), began, c, err)
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil && !errors.Is(err, ErrLapsed):
		return ends(Failed, "the faults did not clear: %v", err)
	}
	return nil
}

// cleared records that faults were cleared.
func (a *active) cleared(what string, began time.Time, c Cleared, err error) {
	note := fmt.Sprintf("%d calls were let go", c.LetGo)
	if c.LetGo == 1 {
		note = "1 call was let go"
	}
	if err == nil && (!c.Confirmed || c.Held > 0) {
		err = fmt.Errorf("not confirmed: %d calls are still held", c.Held)
	}
	a.undone(what, began, err, note)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || !errors.Is(err, ErrLapsed) {
		a.facts.Clears = append(a.facts.Clears, c)
	}
	a.run.ClearTook = max(a.run.ClearTook, time.Since(began))
}

// step takes a step of the scenario.
func (a *active) step(n int, st Step) error {
	t := Taken{Step: st, Ordered: a.now()}
	back, err := bounded(a.ctx, callLimit, func(ctx context.Context) (func(context.Context) error, error) {
		return a.stage.Do(ctx, st)
	}, func(back func(context.Context) error) { a.stepBackLate(st, back) })
	t.Answered = a.now()
	if err != nil {
		t.Err = err.Error()
	}
	a.mu.Lock()
	a.facts.Taken = append(a.facts.Taken, t)
	if back != nil {
		a.undos = append(a.undos, undo{len(a.facts.Taken) - 1, stepName(st), back})
	}
	a.mu.Unlock()
	switch {
	case a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err != nil && (st.Kind == StepRollback || st.Kind == StepRestore):
		return ends(Failed, "%s did not work: %v", stepName(st), err)
	case err != nil:
		return ends(Inconclusive, "%s did not work: %v", stepName(st), err)
	}
	return nil
}

func stepName(st Step) string { return fmt.Sprintf("step %s at %s", st.Kind, formatDuration(st.At)) }

// stepBackLate takes back a step that was taken when nobody waited for it any more.
func (a *active) stepBackLate(st Step, back func(context.Context) error) {
	if back == nil {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, back(ctx) })
	a.undone(stepName(st), began, err, "it had come late")
}

// stepBack takes back the step with a number of the spec, at its time.
func (a *active) stepBack(n int) error {
	name := stepName(a.snapshot().Spec.Scenario.Steps[n])
	a.mu.Lock()
	i := slices.IndexFunc(a.undos, func(u undo) bool { return u.what == name })
	var u undo
	if i >= 0 {
		u = a.undos[i]
		a.undos = slices.Delete(a.undos, i, i+1)
	}
	a.mu.Unlock()
	if i < 0 {
		return nil
	}
	if err := a.undoOne(a.ctx, u); err != nil && a.ctx.Err() == nil {
		return ends(Failed, "%s could not be taken back: %v", u.what, err)
	}
	return context.Cause(a.ctx)
}

// undoOne takes a step back and records it.
func (a *active) undoOne(ctx context.Context, u undo) error {
	began := time.Now()
	err := boundedly(ctx, callLimit, u.do)
	a.undone(u.what, began, err, "")
	at := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		t := &a.facts.Taken[u.taken]
		t.Undone, t.Back = at, true
	}
	return err
}
