package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Errors that commands are refused with.
var (
	ErrNoIncident = errors.New("no such incident")
	ErrNoSilence  = errors.New("no such active silence")
	ErrNoRule     = errors.New("no such rule")
	ErrTooMany    = errors.New("too many silences: remove some first")
	ErrRefused    = errors.New("request refused")
)

const (
	maxName     = 200  // bytes of the name of a person, a rule or a pool
	maxReason   = 1000 // bytes of a reason
	maxSilences = 1000
	// duplicateWithin is how much later a second silence may end and still mean the same as the first: two people who
	// press the same button, or one who presses twice.
	duplicateWithin = time.Minute
)

// checkText refuses a text that is too short, too long, or not UTF-8.
func checkText(what, s string, least, most int) error {
	switch {
	case len(s) < least:
		return fmt.Errorf("%w: %s is missing", ErrRefused, what)
	case len(s) > most:
		return fmt.Errorf("%w: %s has %d bytes, at most %d fit", ErrRefused, what, len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s is not UTF-8", ErrRefused, what)
	}
	return nil
}

// command is a function that the loop runs between two evaluation steps.
type command func(l *loop, now time.Time)

// run has the loop run a command, between two steps or during an evaluation, and commits the batch that it returns.
func run[T any](ctx context.Context, e *Engine, f func(l *loop, now time.Time) (T, Batch, error)) (result T, err error) {
	if !e.running.Load() {
		return result, ErrNotRunning
	}
	done := make(chan struct{})
	cmd := func(l *loop, now time.Time) {
		defer close(done)
		var b Batch
		result, b, err = f(l, now)
		l.commit(b)
	}
	select {
	case e.commands <- cmd:
		<-done
		return result, err
	case <-e.quit:
		return result, ErrNotRunning
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// Reload replaces the rules, all or none. Incidents of rules that remain continue; those of removed rules are resolved
// at the next evaluation.
func (e *Engine) Reload(ctx context.Context, rules []Rule) error {
	if err := CheckRules(rules); err != nil {
		return err
	}
	rules = slices.Clone(rules)
	_, err := run(ctx, e, func(l *loop, _ time.Time) (struct{}, Batch, error) {
		l.rules = rules
		return struct{}{}, Batch{}, nil
	})
	return err
}

// AckResult is the result of an acknowledgement.
type AckResult struct {
	Incident Incident
	By       string // who acknowledged it, now or before
	Until    time.Time
	Applied  bool // false: it was acknowledged before, and nothing changed
}

// Ack acknowledges an open incident for a duration, 0 for the default: it stops reminders until then, not escalation.
// Of two, the first counts. It fails with ErrNoIncident and ErrRefused.
func (e *Engine) Ack(ctx context.Context, id, by string, length time.Duration) (AckResult, error) {
	return run(ctx, e, func(l *loop, now time.Time) (AckResult, Batch, error) {
		return l.e.machine.Ack(now, id, by, length)
	})
}

// Ack is Engine.Ack on the machine.
func (m *Machine) Ack(now time.Time, id, by string, length time.Duration) (AckResult, Batch, error) {
	if length == 0 {
		length = m.c.AckFor
	}
	if err := checkText("the name", by, 1, maxName); err != nil {
		return AckResult{}, Batch{}, err
	}
	if length < 0 || length > m.c.AckMax {
		return AckResult{}, Batch{}, fmt.Errorf("%w: an acknowledgement lasts up to %s, not %s", ErrRefused,
			m.c.AckMax, length)
	}
	t := m.begin(now)
	inc := t.incident(id)
	if inc == nil || !inc.Open() {
		return AckResult{}, Batch{}, fmt.Errorf("%q: %w", id, ErrNoIncident)
	}
	applied := inc.AckedBy == "" || !t.now.Before(inc.AckUntil)
	if applied {
		inc.AckedBy, inc.AckUntil = by, truncateMS(t.now.Add(length))
		t.emit(inc, Event{Kind: EventAcked, By: by})
	}
	return AckResult{Incident: *inc, By: inc.AckedBy, Until: inc.AckUntil, Applied: applied}, t.commit(), nil
}

// Annotation is an event to add to open incidents and to those that may be reopened.
type Annotation struct {
	Kind     EventKind // see EventKind.IsAnnotation
	Incident string    // only this one; empty: all that match Pool and Rule
	Pool     string    // empty: any
	Rule     string    // empty: any
	By       string
	Text     string
}

// Annotate adds an event to incidents, and returns those. None is no error. An annotation changes no state, sends
// no notification and is never muted.
func (e *Engine) Annotate(ctx context.Context, a Annotation) ([]Incident, error) {
	return run(ctx, e, func(l *loop, now time.Time) ([]Incident, Batch, error) { return l.e.machine.Annotate(now, a) })
}

// Annotate is Engine.Annotate on the machine.
func (m *Machine) Annotate(now time.Time, a Annotation) ([]Incident, Batch, error) {
	if !a.Kind.IsAnnotation() {
		return nil, Batch{}, fmt.Errorf("%w: %q is not a kind of annotation", ErrRefused, a.Kind)
	}
	if err := cmp.Or(checkText("the name", a.By, 1, maxName), checkText("the text", a.Text, 0, maxReason)); err != nil {
		return nil, Batch{}, err
	}
	t := m.begin(now)
	var annotated []Incident
	for _, id := range m.incidentIDsByAge() {
		inc := m.incidents[id]
		if a.Incident != "" && a.Incident != id || a.Pool != "" && a.Pool != inc.Pool || a.Rule != "" && a.Rule != inc.Rule {
			continue
		}
		inc = t.incident(id)
		pending, notified := inc.PendingUnmute, inc.Notified
		t.emit(inc, Event{Kind: a.Kind, By: a.By, Text: a.Text})
		inc.PendingUnmute, inc.Notified = pending, notified
		t.events[len(t.events)-1].Muted = false
		annotated = append(annotated, *inc)
	}
	return annotated, t.commit(), nil
}

// Covers says whether the silence is about a key.
func (s Silence) Covers(key Key) bool {
	return s.Rule == key.Rule && (s.Pool == "" || s.Pool == key.Pool)
}

// ActiveAt says whether the silence mutes at that time.
func (s Silence) ActiveAt(at time.Time) bool {
	return !s.EndHandled && !at.Before(s.From) && at.Before(s.Until)
}

// SilenceResult is the result of a silence.
type SilenceResult struct {
	Silence Silence // that is active now
	Applied bool    // false: it was there before, and nothing changed
}

// Silence mutes what is sent about a rule until s.Until, from s.From, or from now if that is zero or past. An active
// silence that means the same stays. It fails with ErrNoRule, ErrTooMany and ErrRefused.
func (e *Engine) Silence(ctx context.Context, s Silence) (SilenceResult, error) {
	return run(ctx, e, func(l *loop, now time.Time) (SilenceResult, Batch, error) {
		if err := l.checkRuleExists(s.Rule, s.Pool); err != nil {
			return SilenceResult{}, Batch{}, err
		}
		return l.e.machine.Silence(now, s)
	})
}

// checkRuleExists says whether there is a rule of that name, in that pool if one is named.
func (l *loop) checkRuleExists(rule, pool string) error {
	signalRules, missingRules := splitRules(l.rules)
	var names []string
	for _, r := range append(signalRules, missingRules...) {
		if r.Name == rule && (pool == "" || r.Pool == pool) {
			return nil
		}
		names = append(names, r.Name)
	}
	slices.Sort(names)
	where := ""
	if pool != "" {
		where = fmt.Sprintf(" in pool %q", pool)
	}
	return fmt.Errorf("%q%s: %w; there are %s", rule, where, ErrNoRule, strings.Join(slices.Compact(names), ", "))
}

// Silence is Engine.Silence on the machine, which accepts any rule.
func (m *Machine) Silence(now time.Time, s Silence) (SilenceResult, Batch, error) {
	t := m.begin(now)
	s.From, s.Until = truncateMS(s.From), truncateMS(s.Until)
	if s.From.Before(t.now) {
		s.From = t.now
	}
	err := cmp.Or(checkText("the rule", s.Rule, 1, maxName), checkText("the pool", s.Pool, 0, maxName),
		checkText("the name", s.By, 1, maxName), checkText("the reason", s.Reason, 0, maxReason))
	if length := s.Until.Sub(s.From); err == nil && (length <= 0 || length > m.c.SilenceMax) {
		err = fmt.Errorf("%w: a silence lasts up to %s, not %s", ErrRefused, m.c.SilenceMax, length)
	}
	if err != nil {
		return SilenceResult{}, Batch{}, err
	}
	for _, other := range m.silences {
		if other.ActiveAt(t.now) && other.Rule == s.Rule && other.Pool == s.Pool && s.From.Equal(t.now) &&
			s.Until.Sub(other.Until) <= duplicateWithin {
			return SilenceResult{Silence: other}, Batch{}, nil
		}
	}
	if len(m.silences) >= maxSilences {
		return SilenceResult{}, Batch{}, ErrTooMany
	}
	s.ID, s.EndHandled = m.c.NewID(), false
	m.silences = append(m.silences, s)
	t.silences = append(t.silences, s)
	return SilenceResult{Silence: s, Applied: true}, t.commit(), nil
}

// Unsilence ends a silence early. It fails with ErrNoSilence and ErrRefused.
func (e *Engine) Unsilence(ctx context.Context, id, by string) (Silence, error) {
	return run(ctx, e, func(l *loop, now time.Time) (Silence, Batch, error) {
		return l.e.machine.Unsilence(now, id, by)
	})
}

// Unsilence is Engine.Unsilence on the machine.
func (m *Machine) Unsilence(now time.Time, id, by string) (Silence, Batch, error) {
	if err := checkText("the name", by, 1, maxName); err != nil {
		return Silence{}, Batch{}, err
	}
	n := slices.IndexFunc(m.silences, func(s Silence) bool { return s.ID == id })
	if n < 0 {
		return Silence{}, Batch{}, fmt.Errorf("%q: %w", id, ErrNoSilence)
	}
	t := m.begin(now)
	s := m.silences[n]
	started := !t.now.Before(s.From)
	s.Until, s.EndHandled = minTime(s.Until, t.now), true
	m.silences = slices.Delete(slices.Clone(m.silences), n, n+1)
	t.silences = append(t.silences, s)
	if started {
		t.unmute([]Silence{s}, by)
	}
	return s, t.commit(), nil
}

// endSilences ends the silences whose time is over.
func (t *txn) endSilences() {
	var ended, left []Silence
	for _, s := range t.m.silences {
		if t.now.Before(s.Until) {
			left = append(left, s)
			continue
		}
		s.EndHandled = true
		ended = append(ended, s)
	}
	if len(ended) == 0 {
		return
	}
	t.m.silences = left
	t.silences = append(t.silences, ended...)
	t.unmute(ended, "")
}

// unmute emits the current state of each incident that the ended silences muted and that is open, or was resolved
// meanwhile, unless another silence still mutes it.
func (t *txn) unmute(ended []Silence, by string) {
	for _, id := range t.m.incidentIDsByAge() {
		inc := t.m.incidents[id]
		covered := slices.ContainsFunc(ended, func(s Silence) bool { return s.Covers(inc.Key) })
		openedNow := t.incidentsBefore[id].ID == "" && slices.Contains(t.touchedIncidents, id)
		if !covered || t.muted(inc.Key) || !inc.PendingUnmute && (!inc.Open() || openedNow) {
			continue
		}
		inc = t.incident(id)
		inc.PendingUnmute = false
		t.emit(inc, Event{Kind: EventUnmuted, By: by})
		if s, ok := t.m.states[inc.Key]; ok && s.Incident == id {
			t.state(inc.Key).LastNotified = t.now // also of a resolved one: it may be reopened without a notification
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
