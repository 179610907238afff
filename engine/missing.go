package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// SignalMissing is the name of the rule that watches the others' signals. Its
// value is the number of signals of the pool that have been missing for longer
// than the grace; it is counted, not asked for, so a rule of this name needs no
// Signal. A pool that has no such rule gets the one of MissingRule.
const SignalMissing = "signal_missing"

// maxNamed bounds the signals that a summary names.
const maxNamed = 3

// MissingRule returns the rule that a pool's missing signals open an incident by
// when its settings have none.
func MissingRule(pool string) Rule {
	return Rule{
		Name: SignalMissing, Pool: pool, Unit: "signals",
		Warn:    Threshold{At: 1, Set: true},
		Clear:   Clear{Below: 1, For: time.Minute},
		Summary: "signals cannot be read, and the rules on them are blind",
		Feel:    "nothing by itself: but trouble may go unnoticed",
		Runbook: SignalMissing,
	}
}

// missingRules returns the rules that watch the signals of the pools.
func (t *turn) missingRules(rules []Rule, pools []string) []Rule {
	var watch []Rule
	seen := make(map[string]bool)
	for _, r := range rules {
		if r.Name == SignalMissing && !seen[r.Pool] {
			watch = append(watch, r)
			seen[r.Pool] = true
		}
	}
	for _, pool := range pools {
		if !seen[pool] {
			watch = append(watch, MissingRule(pool))
		}
	}
	return watch
}

// missing returns the value of a rule that watches signals, and the rule with a
// summary that names those that are missing.
func (t *turn) missing(r Rule, rules []Rule) (Rule, Value) {
	var lost []string
	for _, other := range rules {
		if other.Pool != r.Pool || other.Name == SignalMissing || slices.Contains(lost, other.Name) {
			continue
		}
		s := t.slot(other.Key())
		if s.zone == zoneMissing && s.LostFor >= t.m.c.MissingGrace {
			lost = append(lost, other.Name)
		}
	}
	if len(lost) > 0 {
		r.Summary += ": " + strings.Join(lost[:min(maxNamed, len(lost))], ", ")
	}
	if more := len(lost) - maxNamed; more > 0 {
		r.Summary += fmt.Sprintf(" and %d more", more)
	}
	return r, Value{V: float64(len(lost))}
}
