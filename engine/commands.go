package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// command is what a command does, in the loop's goroutine.
type command func(l *loop, now time.Time) Batch

// do has the loop carry out an order, between two steps or while an evaluation
// is on its way.
func (e *Engine) do(ctx context.Context, o command) error {
	if !e.running.Load() {
		return ErrNotRunning
	}
	done := make(chan struct{})
	cmd := func(l *loop) {
		defer close(done)
		l.commit(o(l, l.e.o.Clock()))
	}
	select {
	case e.commands <- cmd:
		<-done
		return nil
	case <-e.quit:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ack takes an open incident on for some time, 0 for the usual one. It stops
// reminders, not escalation. The result says who has it; ErrNoIncident and
// ErrRefused are for those that cannot be.
func (e *Engine) Ack(ctx context.Context, id, by string, length time.Duration) (AckResult, error) {
	var a AckResult
	var refused error
	err := e.do(ctx, func(l *loop, now time.Time) (b Batch) {
		a, b, refused = l.e.machine.Ack(now, id, by, length)
		return b
	})
	return a, firstErr(err, refused)
}

// Silence mutes what is sent about a rule of the engine. ErrNoRule, ErrTooMany and
// ErrRefused are for wishes that cannot be.
func (e *Engine) Silence(ctx context.Context, s Silence) (SilenceResult, error) {
	var done SilenceResult
	var refused error
	err := e.do(ctx, func(l *loop, now time.Time) (b Batch) {
		if refused = l.checkRuleExists(s.Rule, s.Pool); refused == nil {
			done, b, refused = l.e.machine.Silence(now, s)
		}
		return b
	})
	return done, firstErr(err, refused)
}

// Unsilence ends a silence early.
func (e *Engine) Unsilence(ctx context.Context, id, by string) (Silence, error) {
	var s Silence
	var refused error
	err := e.do(ctx, func(l *loop, now time.Time) (b Batch) {
		s, b, refused = l.e.machine.Unsilence(now, id, by)
		return b
	})
	return s, firstErr(err, refused)
}

// Reload replaces the rules, all or none. Incidents of rules that are still there
// go on; those of rules that are not are resolved at the next evaluation.
func (e *Engine) Reload(ctx context.Context, rules []Rule) error {
	if err := CheckRules(rules); err != nil {
		return err
	}
	rules = slices.Clone(rules)
	return e.do(ctx, func(l *loop, _ time.Time) Batch {
		l.rules = rules
		return Batch{}
	})
}

// checkRuleExists says whether there is a rule of that name, in that pool if one is named.
func (l *loop) checkRuleExists(rule, pool string) error {
	asked, watching := splitRules(l.rules)
	var names []string
	for _, r := range append(asked, watching...) {
		if r.Name == rule && (pool == "" || r.Pool == pool) {
			return nil
		}
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	where := ""
	if pool != "" {
		where = fmt.Sprintf(" in pool %q", pool)
	}
	return fmt.Errorf("%q%s: %w; there are %s", rule, where, ErrNoRule, strings.Join(names, ", "))
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
