package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Config holds the durations of an engine. DefaultConfig returns usable ones.
type Config struct {
	Interval  time.Duration // between evaluations
	SlowEvery time.Duration // between evaluations of a slow rule
	// EvalTimeout bounds one evaluation; a value that is not there by then is missing.
	EvalTimeout time.Duration
	SaveTimeout time.Duration // bounds one attempt to record

	MissingGrace time.Duration // a signal may be missing for so long before signal_missing counts it
	IdleClose    time.Duration // an incident is resolved after so long without traffic
	ReopenWindow time.Duration // a breach within it reopens the incident; 0: never
	Flap         Flap
	Remind       Remind

	AckFor     time.Duration // default length of an acknowledgement
	AckMax     time.Duration // longest acknowledgement
	SilenceMax time.Duration // longest silence

	NewID func() string // returns a UUIDv7; nil: made from the system's clock
}

// Flap says when an incident that fires again and again is reported by digests.
type Flap struct {
	Count  int           // flaps, at least 2
	Window time.Duration // within which they make an incident flapping
	Digest time.Duration // between two digests
}

// Remind holds the time between reminders of an open incident. Zero: none.
type Remind struct{ Warn, Page time.Duration }

// DefaultConfig returns the durations that the built-in rules are made for.
func DefaultConfig() Config {
	return Config{
		Interval: time.Second, SlowEvery: 30 * time.Second,
		EvalTimeout: 2 * time.Second, SaveTimeout: 2 * time.Second,
		MissingGrace: 2 * time.Minute, IdleClose: 30 * time.Minute, ReopenWindow: 10 * time.Minute,
		Flap:   Flap{Count: 5, Window: 30 * time.Minute, Digest: 30 * time.Minute},
		Remind: Remind{Page: time.Hour},
		AckFor: 2 * time.Hour, AckMax: 24 * time.Hour, SilenceMax: 30 * 24 * time.Hour,
	}
}

// Validate names every impossible field, and says what would be right.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value time.Duration
		zero  bool // 0 is allowed
	}{
		{"Interval", c.Interval, false}, {"SlowEvery", c.SlowEvery, false},
		{"EvalTimeout", c.EvalTimeout, false}, {"SaveTimeout", c.SaveTimeout, false},
		{"MissingGrace", c.MissingGrace, true}, {"IdleClose", c.IdleClose, false},
		{"ReopenWindow", c.ReopenWindow, true},
		{"Flap.Window", c.Flap.Window, false}, {"Flap.Digest", c.Flap.Digest, false},
		{"Remind.Warn", c.Remind.Warn, true}, {"Remind.Page", c.Remind.Page, true},
		{"AckFor", c.AckFor, false}, {"SilenceMax", c.SilenceMax, false},
	} {
		switch {
		case f.value < 0 && f.zero:
			errs = append(errs, fmt.Errorf("%s is %s: it must be 0 or more", f.name, f.value))
		case f.value <= 0 && !f.zero:
			errs = append(errs, fmt.Errorf("%s is %s: it must be above 0", f.name, f.value))
		}
	}
	if c.AckMax < c.AckFor {
		errs = append(errs, fmt.Errorf("AckMax is %s: it must be at least AckFor, which is %s", c.AckMax, c.AckFor))
	}
	if c.Flap.Count < 2 || c.Flap.Count > maxFlapTimes {
		errs = append(errs, fmt.Errorf("Flap.Count is %d: it must be from 2 to %d", c.Flap.Count, maxFlapTimes))
	}
	return errors.Join(errs...)
}

// interval returns the interval of a level's reminders.
func (r Remind) interval(l Level) time.Duration {
	switch l {
	case LevelPage:
		return r.Page
	case LevelWarn:
		return r.Warn
	default:
		return 0
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
