package engine

import (
	"context"
	"fmt"
	"time"
)

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
