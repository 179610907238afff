package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/engine"
)

// paused returns the pools that a call means, with their pauses as they would be.
func (r *Registry) paused(now time.Time, c ActionRequest) ([]Pause, error) {
	length := c.For
	if length == 0 {
		length = DefaultPause
	}
	if length > MaxPause {
		return nil, fmt.Errorf("%w: a pause lasts up to %s, not %s", ErrInvalidAction, MaxPause, length)
	}
	var all []Pause
	for _, v := range r.modes.poolViews(now) {
		if c.Pool != "" && c.Pool != v.Pool {
			continue
		}
		p := Pause{Pool: v.Pool, Since: now.UTC().Truncate(time.Millisecond), Actor: c.Actor, Via: c.Via, Reason: c.Reason}
		if c.Name == ActPause {
			p.Until = p.Since.Add(length)
		} else if v.gate.PausedUntil.IsZero() {
			if c.Pool != "" {
				return nil, fmt.Errorf("pool %q: %w", c.Pool, ErrNotPaused)
			}
			continue
		}
		all = append(all, p)
	}
	if len(all) == 0 && c.Name == ActResume && c.Pool == "" {
		return nil, ErrNotPaused
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pool %q: %w", c.Pool, ErrNoPool)
	}
	return all, nil
}

func planPause(r *Registry, now time.Time, c ActionRequest) (ActionResult, error) {
	all, err := r.paused(now, c)
	if err != nil {
		return ActionResult{}, err
	}
	o := ActionResult{Words: pauseWords(all, "would hand"), Until: all[0].Until}
	o.Undo = pauseUndo(all)
	return o, nil
}

func doPause(r *Registry, ctx context.Context, now time.Time, c ActionRequest) (ActionResult, error) {
	all, err := r.paused(now, c)
	if err != nil {
		return ActionResult{}, err
	}
	o := ActionResult{Words: pauseWords(all, "hands"), Until: all[0].Until, Undo: pauseUndo(all), Recorded: true, Verified: true}
	var found []string
	for _, p := range all {
		recorded, err := r.pauses.set(ctx, now, p)
		if err != nil {
			return ActionResult{}, err // the pool has gone meanwhile
		}
		o.Recorded = o.Recorded && recorded
		gate := r.modes.gate(p.Pool)
		if gate == nil {
			continue
		}
		until := gate.Snapshot(time.Now()).PausedUntil
		o.Verified = o.Verified && until.IsZero() == p.Until.IsZero()
		if until.IsZero() {
			found = append(found, fmt.Sprintf("pool %s is not paused", p.Pool))
		} else {
			found = append(found, fmt.Sprintf("pool %s is paused until %s", p.Pool, formatTime(until)))
		}
	}
	o.Found = strings.Join(found, "; ")
	return o, nil
}

func pauseWords(all []Pause, verb string) string {
	var words []string
	for _, p := range all {
		s := fmt.Sprintf("Pool %s %s out permits again.", p.Pool, verb)
		if !p.Until.IsZero() {
			s = fmt.Sprintf("Pool %s %s out no permit until %s.", p.Pool, verb, formatTime(p.Until))
		}
		words = append(words, s)
	}
	return strings.Join(words, " ")
}

func pauseUndo(all []Pause) []string {
	var undo []string
	for _, p := range all {
		if p.Until.IsZero() {
			undo = append(undo, "headgate pause --pool "+p.Pool)
		} else {
			undo = append(undo, "headgate resume --pool "+p.Pool)
		}
	}
	return undo
}

// open returns an open incident.
func (r *Registry) open(id string) (engine.Incident, error) {
	if r.orders == nil {
		return engine.Incident{}, ErrNoRuleEngine
	}
	for _, inc := range r.orders.Incidents() {
		if inc.ID == id && inc.Open() {
			return inc, nil
		}
	}
	return engine.Incident{}, fmt.Errorf("%.64q: %w", id, engine.ErrNoIncident)
}

func planAck(r *Registry, _ time.Time, c ActionRequest) (ActionResult, error) {
	inc, err := r.open(c.Incident)
	if err != nil {
		return ActionResult{}, err
	}
	return ActionResult{Words: fmt.Sprintf("%s would have incident %s (%s).", c.Actor, inc.ID, inc.Key.Rule)}, nil
}

func doAck(r *Registry, ctx context.Context, _ time.Time, c ActionRequest) (ActionResult, error) {
	if r.orders == nil {
		return ActionResult{}, ErrNoRuleEngine
	}
	acked, err := r.orders.Ack(ctx, c.Incident, c.Actor, c.For)
	if err != nil {
		return ActionResult{}, err
	}
	inc, err := r.open(c.Incident)
	o := ActionResult{
		Words: fmt.Sprintf("%s has incident %s until %s.", acked.By, c.Incident, formatTime(acked.Until)), Recorded: true, Until: acked.Until, Acked: &acked,
		Verified: err == nil && inc.AckedBy == acked.By, Found: "the incident is over",
	}
	if err == nil {
		o.Found = fmt.Sprintf("%s has it until %s", inc.AckedBy, formatTime(inc.AckUntil))
	}
	return o, nil
}

// defaultSilence is how long a silence lasts that does not say.
const defaultSilence = time.Hour

func (c ActionRequest) silence(now time.Time) engine.Silence {
	length := c.For
	if length == 0 {
		length = defaultSilence
	}
	return engine.Silence{Rule: c.Rule, Pool: c.Pool, From: now, Until: now.Add(length), By: c.Actor, Reason: c.Reason}
}

func planSilence(r *Registry, now time.Time, c ActionRequest) (ActionResult, error) {
	if r.orders == nil {
		return ActionResult{}, ErrNoRuleEngine
	}
	s := c.silence(now)
	return ActionResult{Words: fmt.Sprintf("Nothing would be sent about %s until %s.", s.Rule, formatTime(s.Until)), Until: s.Until}, nil
}

func doSilence(r *Registry, ctx context.Context, now time.Time, c ActionRequest) (ActionResult, error) {
	if r.orders == nil {
		return ActionResult{}, ErrNoRuleEngine
	}
	done, err := r.orders.Silence(ctx, c.silence(now))
	if err != nil {
		return ActionResult{}, err
	}
	s := done.Silence
	there := slices.ContainsFunc(r.orders.Silences(), func(o engine.Silence) bool { return o.ID == s.ID })
	o := ActionResult{
		Words: fmt.Sprintf("Nothing is sent about %s until %s.", s.Rule, formatTime(s.Until)), Recorded: true, Until: s.Until, Silenced: &done,
		Verified: there, Found: "the silence is there",
	}
	if !there {
		o.Found = "the silence is not there"
	}
	return o, nil
}
