package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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

// Errors that commands are refused with.
var (
	ErrNoIncident = errors.New("no such incident, or it is over")
	ErrNoSilence  = errors.New("no such silence, or it is over")
	ErrNoRule     = errors.New("no such rule")
	ErrTooMany    = errors.New("too many silences: lift some first")
	ErrRefused    = errors.New("cannot be done")
)

const (
	maxName   = 200  // bytes of the name of a person
	maxReason = 1000 // bytes of a reason
)

// AckResult is what became of an acknowledgement.
type AckResult struct {
	Incident Incident
	By       string // who has it, the giver of the command or somebody before
	Until    time.Time
	Applied  bool // it was this command
}

// Ack takes an open incident on for some time, 0 for the usual one: it stops
// reminders until then, not escalation. Who comes second changes nothing and is
// told who was first.
func (m *Machine) Ack(now time.Time, id, by string, length time.Duration) (AckResult, Batch, error) {
	if length == 0 {
		length = m.c.AckFor
	}
	if err := checkText("the name", by, 1, maxName); err != nil {
		return AckResult{}, Batch{}, err
	}
	if length < 0 || length > m.c.AckMax {
		return AckResult{}, Batch{}, fmt.Errorf("%w: an acknowledgement lasts up to %s, not %s", ErrRefused, m.c.AckMax, length)
	}
	t := m.begin(now)
	inc := t.incident(id)
	if inc == nil || !inc.Open() {
		return AckResult{}, Batch{}, fmt.Errorf("%q: %w", id, ErrNoIncident)
	}
	won := inc.AckedBy == "" || !t.now.Before(inc.AckUntil)
	if won {
		inc.AckedBy, inc.AckUntil = by, truncateMS(t.now.Add(length))
		t.emit(inc, Event{Kind: EventAcked, By: by})
	}
	return AckResult{Incident: *inc, By: inc.AckedBy, Until: inc.AckUntil, Applied: won}, t.commit(), nil
}

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

const (
	maxSilences = 1000
	// duplicateWithin is how much later a second silence may end and still be the wish of
	// the first: two people who press the same button, or one who presses twice.
	duplicateWithin = time.Minute
)

// Covers says whether the silence is about a key.
func (s Silence) Covers(key Key) bool {
	return s.Rule == key.Rule && (s.Pool == "" || s.Pool == key.Pool)
}

// activeAt says whether the silence mutes at that time.
func (s Silence) activeAt(at time.Time) bool {
	return !s.EndHandled && !at.Before(s.From) && at.Before(s.Until)
}

// SilenceResult is what became of the wish for a silence.
type SilenceResult struct {
	Silence Silence // the one that is there now
	Applied bool    // it was made by this command
}

// Silence mutes what is sent about a rule until s.Until, from s.From or now if
// that is zero or past. A running silence that says the same already wins.
func (m *Machine) Silence(now time.Time, s Silence) (SilenceResult, Batch, error) {
	t := m.begin(now)
	s.From, s.Until = truncateMS(s.From), truncateMS(s.Until)
	if s.From.Before(t.now) {
		s.From = t.now
	}
	if err := m.checkSilence(s); err != nil {
		return SilenceResult{}, Batch{}, err
	}
	for _, other := range m.silences {
		if other.activeAt(t.now) && other.Rule == s.Rule && other.Pool == s.Pool && s.From.Equal(t.now) &&
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

func (m *Machine) checkSilence(s Silence) error {
	if err := checkText("the rule", s.Rule, 1, maxName); err != nil {
		return err
	}
	if err := checkText("the pool", s.Pool, 0, maxName); err != nil {
		return err
	}
	if err := checkText("the name", s.By, 1, maxName); err != nil {
		return err
	}
	if err := checkText("the reason", s.Reason, 0, maxReason); err != nil {
		return err
	}
	if length := s.Until.Sub(s.From); length <= 0 || length > m.c.SilenceMax {
		return fmt.Errorf("%w: a silence lasts up to %s, not %s", ErrRefused, m.c.SilenceMax, length)
	}
	return nil
}

// Unsilence ends a silence early.
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
	ran := s.activeAt(t.now) || !t.now.Before(s.Until)
	s.Until, s.EndHandled = minTime(s.Until, t.now), true
	m.silences = slices.Delete(slices.Clone(m.silences), n, n+1)
	t.silences = append(t.silences, s)
	if ran {
		t.unmute([]Silence{s}, by)
	}
	return s, t.commit(), nil
}

// endSilences deals with the silences whose time is over.
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

// unmute tells the truth about what the ended silences have muted, once for each
// incident that is open or has ended meanwhile, unless it is muted still.
func (t *txn) unmute(ended []Silence, by string) {
	for _, id := range t.m.incidentIDsByAge() {
		inc := t.m.incidents[id]
		covered := slices.ContainsFunc(ended, func(s Silence) bool { return s.Covers(inc.Key) })
		if !covered || t.muted(inc.Key) || !inc.PendingUnmute && (!inc.Open() || t.openedInTxn(id)) {
			continue
		}
		inc = t.incident(id)
		inc.PendingUnmute = false
		t.emit(inc, Event{Kind: EventUnmuted, By: by})
		if s, ok := t.m.states[inc.Key]; ok && s.Incident == id {
			t.state(inc.Key).LastNotified = t.now // also if it is over: it may be reopened without a ping
		}
	}
}

// openedInTxn says whether an incident was opened in this turn.
func (t *txn) openedInTxn(id string) bool {
	return t.incidentsBefore[id].ID == "" && slices.Contains(t.touchedIncidents, id)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// The kinds of events that are no doing of a rule: what people, or headgate by
// itself, did about an incident. They change nothing, ping nobody and are not
// muted: who follows an incident is to know who has done what.
const (
	EventMode     EventKind = "mode_changed" // of the incident's pool
	EventSilenced EventKind = "silenced"
	EventNote     EventKind = "noted" // Words say what
)

// Annotation says whether the kind is one of those that a Annotation may have.
func (k EventKind) IsAnnotation() bool {
	return k == EventMode || k == EventSilenced || k == EventNote
}

// Annotation is what is to be added to the story of incidents: of those that are open
// and of those that may be reopened.
type Annotation struct {
	Kind     EventKind
	Incident string // only this one; empty: all that fit the next two
	Pool     string // empty: any
	Rule     string // empty: any
	By       string
	Text     string
}

func (r Annotation) matches(inc *Incident) bool {
	return (r.Incident == "" || r.Incident == inc.ID) && (r.Pool == "" || r.Pool == inc.Key.Pool) &&
		(r.Rule == "" || r.Rule == inc.Key.Rule)
}

func (r Annotation) check() error {
	if !r.Kind.IsAnnotation() {
		return fmt.Errorf("%w: %q is no kind of a remark", ErrRefused, r.Kind)
	}
	if err := checkText("the name", r.By, 1, maxName); err != nil {
		return err
	}
	return checkText("the text", r.Text, 0, maxReason)
}

// Annotation adds a remark, and returns the incidents that it was added to. None is
// no error.
func (m *Machine) Annotate(now time.Time, r Annotation) ([]Incident, Batch, error) {
	if err := r.check(); err != nil {
		return nil, Batch{}, err
	}
	t := m.begin(now)
	var told []Incident
	for _, id := range m.incidentIDsByAge() {
		if r.matches(m.incidents[id]) {
			inc := t.incident(id)
			t.annotate(inc, r)
			told = append(told, *inc)
		}
	}
	return told, t.commit(), nil
}

// annotate is emit, but for what a silence does.
func (t *txn) annotate(inc *Incident, r Annotation) {
	due, said := inc.PendingUnmute, inc.Notified
	t.emit(inc, Event{Kind: r.Kind, By: r.By, Text: r.Text})
	inc.PendingUnmute, inc.Notified = due, said
	t.events[len(t.events)-1].Muted = false
}

// Annotation adds a remark to incidents, and returns those. ErrRefused is for what
// cannot be said.
func (e *Engine) Annotate(ctx context.Context, r Annotation) ([]Incident, error) {
	var told []Incident
	var refused error
	err := e.do(ctx, func(l *loop, now time.Time) (b Batch) {
		told, b, refused = l.e.machine.Annotate(now, r)
		return b
	})
	return told, firstErr(err, refused)
}
