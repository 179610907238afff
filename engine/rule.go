package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Level is how severe an incident is. Its text, in settings, metrics and JSON, is none, warn or page.
type Level uint8

// The levels, in rising order.
const (
	LevelNone Level = iota
	LevelWarn       // to be looked at during the day
	LevelPage       // to be looked at now
)

func levelNames() []string { return []string{"none", "warn", "page"} }

// String returns the level's text.
func (l Level) String() string { return enumName(l, levelNames()) }

// MarshalText returns what String does.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText accepts what String returns.
func (l *Level) UnmarshalText(text []byte) error { return parseEnum(l, text, levelNames()) }

// enumName returns the name of a value, that of 0 for one without a name.
func enumName[E ~uint8](v E, names []string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return names[0]
}

func parseEnum[E ~uint8](to *E, text []byte, names []string) error {
	n := slices.Index(names, string(text))
	if n < 0 {
		return fmt.Errorf("must be one of %s, is %.40q", strings.Join(names, ", "), text)
	}
	*to = E(n)
	return nil
}

// Rule says which values of a signal open an incident. It belongs to one pool, or to the whole process if Pool is
// empty: a rule that a file declares once for all pools is one Rule for each.
type Rule struct {
	Name   string `json:"name"`
	Pool   string `json:"pool"`   // empty: the whole process
	Signal string `json:"signal"` // PromQL over the process's own samples; $pool is filled in already
	Unit   string `json:"unit"`   // of the value: s, ratio, tasks, "" for a plain number

	Warn  Threshold `json:"warn"`
	Page  Threshold `json:"page"`
	Clear Clear     `json:"clear"`

	MinEvents float64 `json:"min_events"` // with fewer events in the window the value is idle; 0: no minimum
	Events    string  `json:"events"`     // PromQL that counts them; empty if MinEvents is 0

	Summary string `json:"summary"` // what is wrong, in plain words
	Impact  string `json:"impact"`  // what users of the pool notice
	Runbook string `json:"runbook"` // name of the page that says what to do
	Action  string `json:"action"`  // what the engine itself may do on a page: "" or "rollback"
	Slow    bool   `json:"slow"`    // evaluated every 30 s, on one-minute series
}

// Key returns the key of the rule's state.
func (r Rule) Key() Key { return Key{Rule: r.Name, Pool: r.Pool} }

// Threshold is a level's limit. A value at the limit breaches it. Its JSON is {"at", "for_s"}, or null if it is not
// set.
type Threshold struct {
	At  float64
	For time.Duration // of breach before it counts
	Set bool          // false: the rule does not have this level
}

// Clear ends an incident: the value has to stay below Below for For. Between Below and the first threshold everything
// stays as it is. Its JSON is {"below", "for_s"}.
type Clear struct {
	Below float64
	For   time.Duration
}

// thresholdJSON and clearJSON have durations in seconds, as all JSON of headgate for people and programs.
type (
	thresholdJSON struct {
		At  float64 `json:"at"`
		For float64 `json:"for_s"`
	}
	clearJSON struct {
		Below float64 `json:"below"`
		For   float64 `json:"for_s"`
	}
)

// MarshalJSON writes the threshold as its comment says.
func (t Threshold) MarshalJSON() ([]byte, error) {
	if !t.Set {
		return []byte("null"), nil
	}
	return json.Marshal(thresholdJSON{t.At, t.For.Seconds()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Threshold) UnmarshalJSON(b []byte) error {
	var j *thresholdJSON
	if err := json.Unmarshal(b, &j); err != nil || j == nil {
		*t = Threshold{}
		return err
	}
	*t = Threshold{At: j.At, For: seconds(j.For), Set: true}
	return nil
}

// MarshalJSON writes the condition as its comment says.
func (c Clear) MarshalJSON() ([]byte, error) {
	return json.Marshal(clearJSON{c.Below, c.For.Seconds()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Clear) UnmarshalJSON(b []byte) error {
	var j clearJSON
	err := json.Unmarshal(b, &j)
	*c = Clear{Below: j.Below, For: seconds(j.For)}
	return err
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Quality says whether a value means anything.
type Quality uint8

// The qualities.
const (
	Valid   Quality = iota
	Idle            // too few events, or 0/0: opens no incident
	Missing         // absent, stale, not a number, or an error: neither fires nor clears
)

// Value is the value of a signal.
type Value struct {
	Quality Quality
	V       float64 // only if Valid
}

// CheckRules says what is wrong with rules, all of it at once. It knows nothing
// of the language of signals.
func CheckRules(rules []Rule) error {
	var errs []error
	seen := make(map[Key]bool, len(rules))
	for _, r := range rules {
		if r.Name == "" {
			errs = append(errs, errors.New("a rule has no name"))
		}
		if seen[r.Key()] {
			errs = append(errs, fmt.Errorf("rule %q is there twice for pool %q", r.Name, r.Pool))
		}
		seen[r.Key()] = true
		if err := r.check(); err != nil {
			errs = append(errs, fmt.Errorf("rule %q of pool %q: %w", r.Name, r.Pool, err))
		}
	}
	return errors.Join(errs...)
}

func (r Rule) check() error {
	if !r.Warn.Set && !r.Page.Set {
		return errors.New("it has neither a warn nor a page threshold")
	}
	for _, v := range []float64{r.Warn.At, r.Page.At, r.Clear.Below} {
		if !finite(v) {
			return fmt.Errorf("%v is no threshold: it must be a finite number", v)
		}
	}
	if r.Warn.For < 0 || r.Page.For < 0 || r.Clear.For < 0 {
		return errors.New("for must not be negative")
	}
	if r.Warn.Set && r.Page.Set && r.Warn.At > r.Page.At {
		return fmt.Errorf("warn at %v is above page at %v", r.Warn.At, r.Page.At)
	}
	if r.Clear.Below > r.lowestThreshold().At {
		return fmt.Errorf("clear below %v is above the first threshold, %v", r.Clear.Below, r.lowestThreshold().At)
	}
	return nil
}

// lowestThreshold returns the lower threshold.
func (r Rule) lowestThreshold() Threshold {
	if r.Warn.Set {
		return r.Warn
	}
	return r.Page
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// SignalMissing is the name of the rule that watches the others' signals. Its
// value is the number of signals of the pool that have been missing for longer
// than the grace; it is counted, not asked for, so a rule of this name needs no
// Signal. A pool that has no such rule gets the one of MissingRule.
const SignalMissing = "signal_missing"

// maxNamedSignals bounds the signals that a summary names.
const maxNamedSignals = 3

// MissingRule returns the rule that a pool's missing signals open an incident by
// when its settings have none.
func MissingRule(pool string) Rule {
	return Rule{
		Name: SignalMissing, Pool: pool, Unit: "signals",
		Warn:    Threshold{At: 1, Set: true},
		Clear:   Clear{Below: 1, For: time.Minute},
		Summary: "signals cannot be read, and the rules on them are blind",
		Impact:  "nothing by itself: but trouble may go unnoticed",
		Runbook: SignalMissing,
	}
}

// splitRules returns the rules whose signals are asked for, and those that watch the
// signals of each pool. Of rules with one key the first counts.
func splitRules(rules []Rule) (asked, watching []Rule) {
	seen := make(map[Key]bool, len(rules))
	for _, r := range rules {
		switch {
		case seen[r.Key()]:
		case r.Name == SignalMissing:
			watching = append(watching, r)
		default:
			asked = append(asked, r)
		}
		seen[r.Key()] = true
	}
	for _, r := range asked {
		if watch := MissingRule(r.Pool); !seen[watch.Key()] {
			watching = append(watching, watch)
			seen[watch.Key()] = true
		}
	}
	return asked, watching
}

// missingSignals returns the value of a rule that watches signals, and the rule with a
// summary that names those that are missing.
func (t *txn) missingSignals(r Rule, asked []Rule) (Rule, Value) {
	var lost []string
	for _, other := range asked {
		s := t.m.states[other.Key()]
		if other.Pool == r.Pool && s.band == bandMissing && s.MissingFor >= t.m.c.MissingGrace {
			lost = append(lost, other.Name)
		}
	}
	if len(lost) > 0 {
		r.Summary += ": " + strings.Join(lost[:min(maxNamedSignals, len(lost))], ", ")
	}
	if more := len(lost) - maxNamedSignals; more > 0 {
		r.Summary += fmt.Sprintf(" and %d more", more)
	}
	return r, Value{V: float64(len(lost))}
}
