// Package replay sends the recorded arrivals of a coding service through the
// gate, over real HTTP and to a stub that takes its time, and holds three
// accounts of it against each other: the load generator's, the gate's metrics,
// and the stub's.
//
// Time is compressed: arrivals, service times, SLO and queue age by the same
// factor, so that the load is that of the recording. Only Retry-After stays
// wall clock, since clients take it so.
package replay
