// Package admission is the gate: it decides, for one pool, which tasks come in,
// which of them run now, and in what order the others wait.
//
// # Words
//
//   - A task is one unit of work for the model; here it is only a class, a
//     deadline and somebody who waits for it.
//   - A permit is the right to be one of the N tasks in flight. A worker is a
//     permit: nothing else has to be scheduled.
//   - A policy decides whether a task comes in. Gate and queue share this
//     package because admitting, waiting and refusing must be decided under
//     one lock.
//   - The mode says what the policy's word counts for: enforce (it is law),
//     observe (it is only counted) or passthrough (it is not asked).
//
// # What holds, whenever the lock is free
//
//   - Permits out never grow above N. Lowering N takes no permit away; it
//     stops new ones until enough have come back.
//   - A task waits only while all N permits are out, or the pool is paused.
//   - Every permit that was granted comes back exactly once; a second release,
//     or a release after leaving the queue, does nothing and says so.
//   - Tasks are granted in the order in which they were offered.
//
// # Purity
//
// The gate is a state machine. It takes the time as an argument, starts no
// goroutine and reads no clock, so that production, drills and simulation run
// the same code. All times passed to one gate must come from one clock; a time
// before the latest one seen counts as the latest one.
//
// # Sources
//
// Policy threshold is the rule of the article that the project started from:
// queue age and queue depth, not utilisation, because utilisation hides how
// much of the deadline is left. The running mean and variance of service times
// follow West, "Updating mean and variance estimates: an improved method",
// CACM 22(9), 1979, with exponential weights as in Finch, "Incremental
// calculation of weighted mean and variance", 2009.
package admission
