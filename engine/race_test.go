//go:build race

package engine

// worlds is how many random lives are compared with the oracle. The machine has
// no goroutines: the race detector is given a few of them only.
const worlds = 6
