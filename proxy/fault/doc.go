// Package fault injects faults into calls to an upstream, for drills: each fault
// into a share of the calls, and under a lease that expires by itself.
//
// # Words
//
//   - A fault is a failure mode and the share of calls that it applies to.
//   - A lease is a fault with an expiry. It is held in the memory of the process
//     that makes the calls and is renewed by the process that injects: when that one
//     dies, hangs, or loses its database, the fault ends.
//   - To clear a fault is to remove it from later calls and from those that it
//     stalls at that moment: they continue to the upstream as if they had just
//     arrived. An expiring lease does the same.
//   - A hit is a call that a fault has changed. A fault may have been selected for
//     more calls: for those whose answer ended too early, or that were cleared first.
//
// # Units
//
// Shares are parts of 1; 0 has no effect at all. Times are those of the wall clock.
package fault
