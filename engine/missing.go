package engine

import (
	"fmt"
	"strings"
	"time"
)

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
