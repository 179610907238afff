package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

// maxStepsPerGate is how long one gate is driven at most.
const maxStepsPerGate = 2000

// totalSteps is how long all gates together are driven.
func totalSteps() int {
	if raceEnabled || testing.Short() {
		return 150_000
	}
	return 3_000_000
}

// newRealGate builds the gate itself.
func newRealGate(c admission.Config) subject {
	g, err := admission.New(c)
	if err != nil {
		panic(err)
	}
	return g
}

// modelRules are the policies that the driver switches between.
func modelRules() []rule {
	return []rule{thresholdRule(25*time.Second, 2), thresholdRule(3*time.Second, 1), noneRule()}
}

// driveAll drives gates between some policies for a number of steps, and
// returns how often it came across what. The first disagreement ends the test.
func driveAll(t *testing.T, most int, rules ...rule) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for steps, seed := 0, uint64(0); steps < most; seed++ {
		d := newDriver(newRandSource(seed), rules, newRealGate)
		if err := d.run(maxStepsPerGate); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for what, n := range d.coverage {
			seen[what] += n
		}
		steps += d.steps
	}
	return seen
}

// TestGateAgainstOracle does a few million random things to gates and compares
// every answer, grant and gauge with the oracle.
func TestGateAgainstOracle(t *testing.T) {
	seen := driveAll(t, totalSteps(), modelRules()...)
	for _, what := range []string{
		"offer", "start", "release", "leave", "expire", "resize", "set mode", "set policy", "pause", "resume", "drain",
		"queue_age", "queue_depth", "deadline_passed", "memory", "draining",
		"would queue_age", "would queue_depth", "would deadline_passed",
	} {
		if seen[what] == 0 {
			t.Errorf("the driver never came across %q", what)
		}
	}
	t.Logf("seen: %v", seen)
}

// FuzzGateAgainstOracle lets the fuzzer write what the driver does.
func FuzzGateAgainstOracle(f *testing.F) {
	for seed := range uint64(8) {
		dice, bytes := newRandSource(seed), make([]byte, 400)
		for i := range bytes {
			bytes[i] = byte(dice.draw(256))
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if err := newDriver(&byteSource{bytes}, modelRules(), newRealGate).run(maxStepsPerGate); err != nil {
			t.Fatal(err)
		}
	})
}
