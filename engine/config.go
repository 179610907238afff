package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Config says how the engine takes its time. DefaultConfig returns a usable one.
type Config struct {
	Interval  time.Duration // between evaluations
	SlowEvery time.Duration // between evaluations of a slow rule
	// EvalTimeout bounds one evaluation; what has not come by then is missing.
	EvalTimeout time.Duration
	SaveTimeout time.Duration // bounds one attempt to record

	MissingGrace time.Duration // a signal may be missing for so long before it is trouble of its own
	IdleClose    time.Duration // without traffic for so long, everything ends
	ReopenWindow time.Duration // trouble that comes back within it is the same; 0: never
	Flap         Flap
	Remind       Remind

	AckFor     time.Duration // of an acknowledgement that does not say
	AckMax     time.Duration // the longest acknowledgement
	SilenceMax time.Duration // the longest silence

	NewID func() string // returns a UUIDv7; nil: made from the clock of the system
}

// Flap says when trouble that comes and goes is told as one.
type Flap struct {
	Count  int           // turns for the worse, at least 2
	Window time.Duration // within which they make a flapping
	Digest time.Duration // between two digests of it
}

// Remind says how far reminders of an open incident are apart. Zero: none.
type Remind struct{ Warn, Page time.Duration }

// DefaultConfig returns the settings that the built-in rules are made for.
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

// Validate names every field that cannot be, and says what would be right.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s: it must be above 0", name, d))
		}
	}
	notNegative := func(name string, d time.Duration) {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %s: it must be 0 or more", name, d))
		}
	}
	positive("Interval", c.Interval)
	positive("SlowEvery", c.SlowEvery)
	positive("EvalTimeout", c.EvalTimeout)
	positive("SaveTimeout", c.SaveTimeout)
	notNegative("MissingGrace", c.MissingGrace)
	positive("IdleClose", c.IdleClose)
	notNegative("ReopenWindow", c.ReopenWindow)
	positive("Flap.Window", c.Flap.Window)
	positive("Flap.Digest", c.Flap.Digest)
	notNegative("Remind.Warn", c.Remind.Warn)
	notNegative("Remind.Page", c.Remind.Page)
	positive("AckFor", c.AckFor)
	positive("SilenceMax", c.SilenceMax)
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

func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // crypto/rand never fails on the systems that Go supports
		panic(err)
	}
	return id.String()
}
