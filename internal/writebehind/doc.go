// Package writebehind applies first and records after: what a process has done already is queued, and written to
// storage in order by one goroutine, which retries with exponential backoff until the write succeeds. Nothing that
// matters now waits for a disk. The queue is bounded; what does not fit is counted and reported.
//
// A queue holds one value of type B, a batch, into which additions are merged. For a plain list of items use [List],
// for items of which only the latest for each key counts [Latest]; a type with other rules has its own Merge.
package writebehind
