package engine

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

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
