// Package fault injects faults into what goes upstream, for drills: each for a
// share of the calls and under a lease that ends by itself.
//
// # Words
//
//   - A fault is a way to go wrong, and the share of calls that it befalls.
//   - A lease is a fault with an end. It is held in memory, where it works, and
//     renewed by whoever injects it: a process that dies, or hangs, or loses its
//     database takes the fault with it.
//   - To clear is to take a fault away from calls to come and from those that it
//     holds at that moment.
//
// # Units
//
// Shares are parts of 1; 0 has no effect at all. Times are those of the wall clock.
package fault
