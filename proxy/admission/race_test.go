//go:build race

package admit_test

// raceEnabled says whether the race detector slows this binary down.
const raceEnabled = true
