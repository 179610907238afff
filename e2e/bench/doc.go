// Package bench holds benchmarks that put headgate beside other people's work.
//
// Numbers of two machines, or of two runs, say little. Each benchmark here runs
// both sides in turn within one run and reports the ratio: ours/theirs below 1
// means that ours is cheaper.
package bench
