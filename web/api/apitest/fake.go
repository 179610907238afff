package apitest

import (
	"context"
	"maps"
	"sync"
	"time"

	"headgate/engine"
)

// Signals answers for signals with what a test has put on it. It is safe for
// concurrent use.
type Signals struct {
	mu     sync.Mutex
	values map[engine.Key]engine.Value
}

// NewSignals returns a Signals on which every rule of Rules stands at 0.
func NewSignals() *Signals {
	b := &Signals{values: map[engine.Key]engine.Value{}}
	for _, r := range Rules() {
		b.values[r.Key()] = engine.Value{}
	}
	return b
}

// Values implements engine.Signals.
func (b *Signals) Values(context.Context, time.Time, []engine.Rule) map[engine.Key]engine.Value {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.values)
}

// Set sets the value of a rule in a pool.
func (b *Signals) Set(rule, pool string, v float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[engine.Key{Rule: rule, Pool: pool}] = engine.Value{V: v}
}

// Rules are queue_age of the pools a and b, and journal of the whole process.
func Rules() []engine.Rule {
	rule := func(name, pool, unit string) engine.Rule {
		return engine.Rule{
			Name: name, Pool: pool, Signal: "x", Unit: unit, Clear: engine.Clear{Below: 10},
			Warn: engine.Threshold{At: 15, Set: true}, Page: engine.Threshold{At: 25, Set: true},
			Summary: "The queue is old.", Impact: "Answers come late.", Runbook: "queue_age",
		}
	}
	return []engine.Rule{rule("queue_age", "a", "s"), rule("queue_age", "b", "s"), rule("journal", "", "")}
}
