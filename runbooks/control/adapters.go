package control

import (
	"context"
	"time"

	"headgate/engine"
)

// Modes is the registry for those who have an ModeRequest: what they ask goes the same
// way.
type Modes struct{ Registry *Registry }

// Do carries an order out, as Registry.Do does.
func (m Modes) Do(ctx context.Context, now time.Time, o ModeRequest) (ModeResult, error) {
	out, err := m.Registry.Do(ctx, now, callOf(o))
	return ModeResult{Changes: out.Changes, Recorded: out.Recorded}, err
}

// Watched is the registry for those who speak to the engine: acknowledgements and
// silences that they ask for go the same way as those of others.
type Watched struct {
	*engine.Engine
	Registry *Registry
	Via      func(context.Context) Via // the way by which what is asked in a context came
}

// Ack takes an incident on, as Registry.Do does.
func (w Watched) Ack(ctx context.Context, id, by string, length time.Duration) (engine.AckResult, error) {
	out, err := w.Registry.Do(ctx, time.Now(), ActionRequest{Name: ActAck, Incident: id, For: length, Actor: by, Via: w.Via(ctx)})
	if err != nil {
		return engine.AckResult{}, err
	}
	return *out.Acked, nil
}

// Silence silences a rule, as Registry.Do does.
func (w Watched) Silence(ctx context.Context, s engine.Silence) (engine.SilenceResult, error) {
	if s.From.IsZero() {
		s.From = time.Now()
	}
	out, err := w.Registry.Do(ctx, s.From, ActionRequest{
		Name: ActSilence, Rule: s.Rule, Pool: s.Pool, For: s.Until.Sub(s.From), Reason: s.Reason, Actor: s.By, Via: w.Via(ctx),
	})
	if err != nil {
		return engine.SilenceResult{}, err
	}
	return *out.Silenced, nil
}

// Unsilence ends a silence early, as Registry.Lift does.
func (w Watched) Unsilence(ctx context.Context, id, by string) (engine.Silence, error) {
	return w.Registry.Lift(ctx, time.Now(), id, by, w.Via(ctx))
}
