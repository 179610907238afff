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
	EventNoted    EventKind = "noted" // Words say what
)

// Remark says whether the kind is one of those that a Remark may have.
func (k EventKind) Remark() bool {
	return k == EventMode || k == EventSilenced || k == EventNoted
}

// Remark is what is to be added to the story of incidents: of those that are open
// and of those that may be reopened.
type Remark struct {
	Kind     EventKind
	Incident string // only this one; empty: all that fit the next two
	Pool     string // empty: any
	Rule     string // empty: any
	By       string
	Words    string
}

func (r Remark) fits(inc *Incident) bool {
	return (r.Incident == "" || r.Incident == inc.ID) && (r.Pool == "" || r.Pool == inc.Key.Pool) &&
		(r.Rule == "" || r.Rule == inc.Key.Rule)
}

func (r Remark) check() error {
	if !r.Kind.Remark() {
		return fmt.Errorf("%w: %q is no kind of a remark", ErrRefused, r.Kind)
	}
	if err := checkText("the name", r.By, 1, maxName); err != nil {
		return err
	}
	return checkText("the text", r.Words, 0, maxReason)
}

// Remark adds a remark, and returns the incidents that it was added to. None is
// no error.
func (m *Machine) Remark(now time.Time, r Remark) ([]Incident, Batch, error) {
	if err := r.check(); err != nil {
		return nil, Batch{}, err
	}
	t := m.begin(now)
	var told []Incident
	for _, id := range m.byAge() {
		if r.fits(m.incidents[id]) {
			inc := t.incident(id)
			t.remark(inc, r)
			told = append(told, *inc)
		}
	}
	return told, t.end(), nil
}

// remark is emit, but for what a silence does.
func (t *turn) remark(inc *Incident, r Remark) {
	due, said := inc.Due, inc.Told
	t.emit(inc, Event{Kind: r.Kind, By: r.By, Words: r.Words})
	inc.Due, inc.Told = due, said
	t.events[len(t.events)-1].Muted = false
}

// Remark adds a remark to incidents, and returns those. ErrRefused is for what
// cannot be said.
func (e *Engine) Remark(ctx context.Context, r Remark) ([]Incident, error) {
	var told []Incident
	var refused error
	err := e.do(ctx, func(l *loop, now time.Time) (b Batch) {
		told, b, refused = l.e.machine.Remark(now, r)
		return b
	})
	return told, firstOf(err, refused)
}
