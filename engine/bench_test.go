package engine

import (
	"fmt"
	"testing"
	"time"
)

// Twelve rules for each of ten pools, most of them quiet, some firing.
func BenchmarkStep(b *testing.B) {
	m, err := NewMachine(DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	var rules []Rule
	values := map[Key]Value{}
	for n := range 120 {
		r := ageRule()
		r.Name, r.Pool = fmt.Sprint("rule", n%12), fmt.Sprint("pool", n/12)
		rules = append(rules, r)
		values[r.Key()] = Value{V: float64(n % 16)}
	}
	now := epoch
	for b.Loop() {
		now = now.Add(time.Second)
		m.Step(now, time.Second, rules, values)
	}
}
