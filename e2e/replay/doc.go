// Package replay sends the recorded arrivals of a coding service through the gate, over real HTTP
// and to a stub with realistic service times, and compares three counts: the load generator's,
// the gate's metrics, and the stub's.
//
// Arrivals, service times, SLO and queue age are divided by the same factor, so that the load is
// that of the recording. Retry-After stays in wall-clock seconds, since clients obey it so.
package replay
