//go:build race

package admission_test

// raceEnabled reports whether the race detector slows this binary down.
const raceEnabled = true
