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
//     holds at that moment. Those are let go: they go upstream as if they had come
//     just then. The end of a lease does the same.
//   - A fault befalls a call when it does something to it. It may have been chosen
//     for more: those whose answer ended before its time, or that a clear came
//     before.
//
// # Units
//
// Shares are parts of 1; 0 has no effect at all. Times are those of the wall clock.
package fault
