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
	LevelWarn       // needs attention during the day
	LevelPage       // needs attention now
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
	Idle            // too few events, or 0/0 (see DB.value in package tsdb): opens no incident
	Missing         // absent, stale, not a number, or an error: neither fires nor clears
)

// Value is the value of a signal.
type Value struct {
	Quality Quality
	V       float64 // only if Valid
}

// CheckRules returns everything that is wrong with rules, except for their expressions.
func CheckRules(rules []Rule) error {
	var errs []error
	seen := make(map[Key]bool, len(rules))
	for _, r := range rules {
		if r.Name == "" {
			errs = append(errs, errors.New("a rule has no name"))
		}
		if seen[r.Key()] {
			errs = append(errs, fmt.Errorf("rule %q is repeated for pool %q", r.Name, r.Pool))
		}
		seen[r.Key()] = true
		for _, p := range r.ThresholdProblems() {
			errs = append(errs, fmt.Errorf("rule %q of pool %q: %s", r.Name, r.Pool,
				strings.TrimSpace(p.Field+" "+p.Message)))
		}
	}
	return errors.Join(errs...)
}

// FieldProblem is something that is wrong with a field of a rule, which is named as in a file.
type FieldProblem struct{ Field, Message string }

// ThresholdProblems returns what is wrong with the thresholds of a rule.
func (r Rule) ThresholdProblems() (all []FieldProblem) {
	add := func(field, format string, args ...any) {
		all = append(all, FieldProblem{field, fmt.Sprintf(format, args...)})
	}
	if !r.Warn.Set && !r.Page.Set {
		add("", "has neither warn nor page: give at least one, such as warn: {at: 15, for: 30s}")
		return all
	}
	first, name := r.Page.At, "page.at"
	if r.Warn.Set {
		first, name = r.Warn.At, "warn.at"
	}
	switch {
	case !finite(r.Warn.At):
		add("warn.at", "must be a finite number")
	case !finite(r.Page.At):
		add("page.at", "must be a finite number")
	case !finite(r.Clear.Below):
		add("clear.below", "must be a finite number")
	case r.Warn.Set && r.Page.Set && r.Warn.At > r.Page.At:
		add("page.at", "must be at least warn.at, which is %v; is %v", r.Warn.At, r.Page.At)
	}
	if r.Clear.Below > first {
		add("clear.below", "must be at most %s, which is %v; is %v", name, first, r.Clear.Below)
	}
	if min(r.Warn.For, r.Page.For, r.Clear.For) < 0 {
		add("", "for must not be negative")
	}
	return all
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// SignalMissing is the name of the rule that watches the signals of the other rules. Its value is the number of the
// pool's signals that have been missing for longer than Config.MissingGrace. The value is counted, so the rule needs no
// Signal. A pool without such a rule gets MissingRule.
const SignalMissing = "signal_missing"

// maxNamedSignals bounds the signals that a summary names.
const maxNamedSignals = 3

// MissingRule returns the default rule on a pool's missing signals.
func MissingRule(pool string) Rule {
	return Rule{
		Name: SignalMissing, Pool: pool, Unit: "signals",
		Warn:    Threshold{At: 1, Set: true},
		Clear:   Clear{Below: 1, For: time.Minute},
		Summary: "signals are missing, so their rules cannot fire",
		Impact:  "none directly, but problems may go unnoticed",
		Runbook: SignalMissing,
	}
}

// splitRules returns the rules whose signals are queried, and those that watch the signals of each pool. Of several
// rules with one key the first counts.
func splitRules(rules []Rule) (signalRules, missingRules []Rule) {
	seen := make(map[Key]bool, len(rules))
	for _, r := range rules {
		switch {
		case seen[r.Key()]:
		case r.Name == SignalMissing:
			missingRules = append(missingRules, r)
		default:
			signalRules = append(signalRules, r)
		}
		seen[r.Key()] = true
	}
	for _, r := range signalRules {
		if watch := MissingRule(r.Pool); !seen[watch.Key()] {
			missingRules = append(missingRules, watch)
			seen[watch.Key()] = true
		}
	}
	return signalRules, missingRules
}

// missingSignals returns the value of a rule that watches signals, and the rule with a summary that names the missing
// ones.
func (t *txn) missingSignals(r Rule, signalRules []Rule) (Rule, Value) {
	var lost []string
	for _, other := range signalRules {
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
