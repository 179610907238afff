//go:build !race

package engine

// worlds is how many random lives are compared with the oracle.
const worlds = 80
